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
/// [state](crate::State) of the library. `private` leaves out the symbol that makes the library loadable. An entry may begin with
/// `#[cfg(…)]`, before its documentation.
#[macro_export]
macro_rules! export {
    ($(#[doc = $doc:expr])* mod $name:ident; $($rest:tt)*) => {
        $crate::__entries! { [public $name [$($doc)*]] [] [] $($rest)* }
    };
    ($(#[doc = $doc:expr])* private mod $name:ident; $($rest:tt)*) => {
        $crate::__entries! { [private $name [$($doc)*]] [] [] $($rest)* }
    };
}

/// Collects the entries of the table one by one, and the functions that make the state: each in braces, after its conditions and
/// its documentation.
#[doc(hidden)]
#[macro_export]
macro_rules! __entries {
    ($head:tt $states:tt [$($entry:tt)*]) => {
        $crate::__table! { unchecked $head $states $($entry)* }
    };
    ($head:tt $states:tt [$($entry:tt)*] $(#[cfg($($cfg:tt)*)])* $(#[doc = $doc:expr])*
     class $class:ident $(, $flag:ident)*; $($rest:tt)*) => {
        $crate::__entries! {
            $head $states [$($entry)* {[$([$($cfg)*])*] [$($doc)*] class $class $(, $flag)*}] $($rest)*
        }
    };
    ($head:tt $states:tt [$($entry:tt)*] $(#[cfg($($cfg:tt)*)])* $(#[doc = $doc:expr])*
     fn $($function:path),+ = $text:literal $(, $flag:ident $(= $shape:path)?)*; $($rest:tt)*) => {
        $crate::__entries! {
            $head $states
            [$($entry)* {[$([$($cfg)*])*] [$($doc)*] fn $($function),+ = $text $(, $flag $(= $shape)?)*}]
            $($rest)*
        }
    };
    ($head:tt $states:tt [$($entry:tt)*] $(#[cfg($($cfg:tt)*)])* $(#[doc = $doc:expr])*
     const $text:literal; $($rest:tt)*) => {
        $crate::__entries! {
            $head $states [$($entry)* {[$([$($cfg)*])*] [$($doc)*] const $text}] $($rest)*
        }
    };
    ($head:tt [$($state:tt)*] $entries:tt $(#[cfg($($cfg:tt)*)])* $(#[doc = $doc:expr])*
     state $make:path; $($rest:tt)*) => {
        $crate::__entries! { $head [$($state)* {[$([$($cfg)*])*] $make}] $entries $($rest)* }
    };
}

/// The table. `checked`: its functions were compared with their signatures, by the attribute.
#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    ($check:ident [$visibility:ident $name:ident [$($doc:expr)*]] $states:tt
     $({[$([$($cfg:tt)*])*] [$($about:expr)*] $($what:tt)*})*) => {
        $($(#[cfg($($cfg)*)])* $crate::__items! { $check $($what)* })*
        /// The table of the library.
        #[doc(hidden)]
        pub static TENON: $crate::abi::Module = {
            static FUNCTIONS: &[$crate::abi::Function] =
                &[$($(#[cfg($($cfg)*)])* $crate::__entry! { [$($about)*] $($what)* }),*];
            $crate::__private::module(
                ::core::concat!(::core::stringify!($name), "\0"),
                $crate::__doc!($($doc)*),
                ::core::concat!(::core::env!("CARGO_PKG_VERSION"), "\0"),
                FUNCTIONS,
                $crate::__state!($states),
            )
        };
        $crate::__symbol! { $visibility }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __symbol {
    (private) => {};
    (public) => {
        const _: () = {
            #[unsafe(no_mangle)]
            pub extern "C" fn tenon_module_v1() -> *const $crate::abi::Module {
                &TENON
            }
        };
    };
}

/// What an entry needs beside the table: the comparison of a function with its signature, and the implementations of a class.
#[doc(hidden)]
#[macro_export]
macro_rules! __items {
    ($check:ident class $($class:tt)*) => {
        $crate::__class! { $($class)* }
    };
    (unchecked fn $($function:path),+ = $text:literal $($flags:tt)*) => {
        $(const _: () = {
            struct Text;
            impl $crate::__private::Text for Text {
                const TEXT: &'static ::core::primitive::str = $text;
            }
            $crate::__private::report($crate::__private::check::<Text, _, _, _>(&$function))
        };)+
    };
    ($($what:tt)*) => {};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __entry {
    ([$($doc:expr)*] class $class:ident $(, $flag:ident)*) => {
        $crate::__private::class_entry(
            ::core::concat!("class ", ::core::stringify!($class), "\0"),
            $crate::__doc!($($doc)*),
            0 $(| $crate::__flag!($flag))*,
        )
    };
    ([$($doc:expr)*] const $text:literal) => {
        $crate::__private::class_entry(::core::concat!($text, "\0"), $crate::__doc!($($doc)*), 0)
    };
    ([$($doc:expr)*] fn $($function:path),+ = $text:literal $(, $flag:ident $(= $shape:path)?)*) => {{
        struct Text;
        impl $crate::__private::Text for Text {
            const TEXT: &'static ::core::primitive::str = $text;
        }
        static INSTANCES: &[$crate::__private::Instance] =
            &[$($crate::__private::instance::<Text, _, _, _>(&$function)),+];
        $crate::__private::entry(
            ::core::concat!($text, "\0"),
            $crate::__doc!($($doc)*),
            &INSTANCES,
            $crate::__shape!(Text $(, $flag $(= $shape)?)*),
            0 $(| $crate::__flag!($flag))*,
        )
    }};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __doc {
    ($($doc:expr)*) => {{
        const TEXT: &::core::primitive::str = ::core::concat!($($doc, "\n"),*);
        const BYTES: [::core::primitive::u8; TEXT.len() + 1] = $crate::__private::clean_doc(TEXT);
        &BYTES
    }};
}

/// The functions that make the state, of which the conditions leave at most one.
#[doc(hidden)]
#[macro_export]
macro_rules! __state {
    ([$({[$([$($cfg:tt)*])*] $state:path})*]) => {{
        let state: ::core::option::Option<$crate::__private::StateFns> = ::core::option::Option::None;
        $(
            $(#[cfg($($cfg)*)])*
            const ONE_STATE: () = ();
            $(#[cfg($($cfg)*)])*
            let state = ::core::option::Option::Some($crate::__private::state_of(&$state));
        )*
        state
    }};
}

/// The shape function among the flags, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __shape {
    ($text:ident) => {
        ::core::option::Option::None
    };
    ($text:ident, shape = $shape:path $(, $($rest:tt)*)?) => {
        ::core::option::Option::Some($crate::__private::shape_of::<$text, _, _>(&$shape))
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
            const NAME: &'static ::core::primitive::str = ::core::stringify!($class);
            const CONCURRENT: ::core::primitive::bool = $concurrent;
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
