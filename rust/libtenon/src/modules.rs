//! `export!`: the table of a library.

/// Exports the functions and classes of a library, as [`module`](macro@crate::module) does, without an attribute. Use one of the two
/// once in each library.
///
/// ```
/// /// The function.
/// fn dot(x: &[f32], y: &[f32]) -> f64 {
///     x.iter().zip(y).map(|(x, y)| f64::from(x * y)).sum()
/// }
/// fn scale<T: Copy + std::ops::MulAssign>(x: &mut [T], by: &[T]) {
///     x.iter_mut().for_each(|x| *x *= by[0]);
/// }
/// struct Counter(i64);
/// impl Counter {
///     fn new(start: i64) -> Counter {
///         Counter(start)
///     }
///     fn next(&mut self) -> i64 {
///         self.0 += 1;
///         self.0
///     }
/// }
///
/// tenon::export! {
///     /// Kernels written once.
///     private mod kernels;
///     /// Returns the dot product.
///     fn dot = "dot(x: f32[n] c, y: f32[n] c) -> float", release_lock;
///     fn scale::<f32>, scale::<f64> = "scale(x: T[n] c rw, by: T[1] c) where T = f32|f64";
///     /// Counts.
///     class Counter;
///     fn Counter::new = "Counter(start: int = 0)";
///     fn Counter::next = "Counter.next(self) -> int";
/// }
/// # fn main() {}
/// ```
///
/// The flags after a signature are `release_lock`, `keep_lock`, `no_grad_check` and `capturable`; `class Name, concurrent;` is a
/// class of which calls on one object may run at the same time. `const "LEAF = 16";` is a constant. `shape = function` after a
/// signature names its [shape function](crate::Shapes), and `state function;` the function that makes the
/// [state](crate::State) of the library. `private` leaves out the symbol that makes the library loadable.
#[macro_export]
macro_rules! export {
    ($(#[doc = $doc:expr])* mod $name:ident; $($rest:tt)*) => {
        $crate::__table! { $name [[$($doc)*] []] [] $($rest)* }
        const _: () = {
            #[unsafe(no_mangle)]
            pub extern "C" fn tenon_module_v1() -> *const $crate::abi::Module {
                &TENON
            }
        };
    };
    ($(#[doc = $doc:expr])* private mod $name:ident; $($rest:tt)*) => {
        $crate::__table! { $name [[$($doc)*] []] [] $($rest)* }
    };
}

/// Collects the entries of the table one by one.
#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    ($name:ident [[$($doc:expr)*] [$($state:path)?]] [$($entry:expr,)*]) => {
        /// The table of the library.
        #[doc(hidden)]
        pub static TENON: $crate::abi::Module = {
            static FUNCTIONS: &[$crate::abi::Function] = &[$($entry),*];
            $crate::__private::module(
                concat!(stringify!($name), "\0"),
                $crate::__doc!($($doc)*),
                concat!(env!("CARGO_PKG_VERSION"), "\0"),
                FUNCTIONS,
                $crate::__state!($($state)?),
            )
        };
    };
    ($name:ident $docs:tt [$($entry:expr,)*]
     $(#[doc = $doc:expr])* class $class:ident $(, $flag:ident)*; $($rest:tt)*) => {
        $crate::__class! { $class $(, $flag)* }
        $crate::__table! { $name $docs [$($entry,)* {
            $crate::__private::class_entry(
                concat!("class ", stringify!($class), "\0"),
                $crate::__doc!($($doc)*),
                0 $(| $crate::__flag!($flag))*,
            )
        },] $($rest)* }
    };
    ($name:ident $docs:tt $entries:tt
     $(#[doc = $doc:expr])* fn $($function:path),+ = $text:literal $(, $flag:ident $(= $shape:path)?)*; $($rest:tt)*) => {
        $(const _: () = {
            struct Text;
            impl $crate::__private::Text for Text {
                const TEXT: &'static str = $text;
            }
            $crate::__private::report($crate::__private::check::<Text, _, _, _>(&$function))
        };)+
        $crate::__table! {
            $name $docs $entries $(#[doc = $doc])* @ fn $($function),+ = $text $(, $flag $(= $shape)?)*; $($rest)*
        }
    };
    ($name:ident [$docs:tt []] $entries:tt $(#[doc = $doc:expr])* state $state:path; $($rest:tt)*) => {
        $crate::__table! { $name [$docs [$state]] $entries $($rest)* }
    };
    ($name:ident $docs:tt [$($entry:expr,)*] $(#[doc = $doc:expr])* const $text:literal; $($rest:tt)*) => {
        $crate::__table! { $name $docs [$($entry,)* {
            $crate::__private::class_entry(concat!($text, "\0"), $crate::__doc!($($doc)*), 0)
        },] $($rest)* }
    };
    // A function that was compared with its signature.
    ($name:ident $docs:tt [$($entry:expr,)*]
     $(#[doc = $doc:expr])* @ fn $($function:path),+ = $text:literal $(, $flag:ident $(= $shape:path)?)*; $($rest:tt)*) => {
        $crate::__table! { $name $docs [$($entry,)* {
            struct Text;
            impl $crate::__private::Text for Text {
                const TEXT: &'static str = $text;
            }
            static INSTANCES: &[$crate::__private::Instance] =
                &[$($crate::__private::instance::<Text, _, _, _>(&$function)),+];
            $crate::__private::entry(
                concat!($text, "\0"),
                $crate::__doc!($($doc)*),
                &INSTANCES,
                $crate::__shape!(Text $(, $flag $(= $shape)?)*),
                0 $(| $crate::__flag!($flag))*,
            )
        },] $($rest)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __doc {
    ($($doc:expr)*) => {{
        const TEXT: &str = concat!($($doc, "\n"),*);
        const BYTES: [u8; TEXT.len() + 1] = $crate::__private::clean_doc(TEXT);
        &BYTES
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __state {
    () => {
        None
    };
    ($state:path) => {
        Some($crate::__private::state_of(&$state))
    };
}

/// The shape function among the flags, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __shape {
    ($text:ident) => {
        None
    };
    ($text:ident, shape = $shape:path $(, $($rest:tt)*)?) => {
        Some($crate::__private::shape_of::<$text, _, _>(&$shape))
    };
    ($text:ident, $flag:ident $(, $($rest:tt)*)?) => {
        $crate::__shape!($text $(, $($rest)*)?)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __flag {
    (shape) => {
        0
    };
    (release_lock) => {
        $crate::abi::flag::RELEASE_LOCK
    };
    (keep_lock) => {
        $crate::abi::flag::KEEP_LOCK
    };
    (no_grad_check) => {
        $crate::abi::flag::NO_GRAD_CHECK
    };
    (capturable) => {
        $crate::abi::flag::CAPTURABLE
    };
    (concurrent) => {
        $crate::abi::flag::CONCURRENT
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __class {
    ($class:ident, concurrent) => {
        $crate::__class! { @ $class true }
        const _: () = {
            const fn concurrent_class_is_sync<T: Sync>() {}
            concurrent_class_is_sync::<$class>()
        };
    };
    ($class:ident) => {
        $crate::__class! { @ $class false }
    };
    (@ $class:ident $concurrent:literal) => {
        unsafe impl $crate::Class for $class {
            const NAME: &'static str = stringify!($class);
            const CONCURRENT: bool = $concurrent;
        }
        unsafe impl $crate::ResultValue for $class {
            const TYPE: $crate::__private::Type = $crate::__private::returned_object_type::<$class>();
            type At<'x> = $class;
            unsafe fn give<'x>(
                value: $class,
                call: $crate::__private::RawCall,
                target: $crate::__private::Target,
            ) -> ::core::result::Result<(), $crate::__private::Failed> {
                unsafe { $crate::__private::give_object(value, call, target) }
            }
        }
    };
}
