//! Shape functions: the sizes of results that only the function knows, without the data.

use std::fmt::Display;

use crate::abi::{self, Dtype, Status};
use crate::call::{Call, Failed, RawCall, guard};
use crate::error::{Error, Result};
use crate::function::Text;
use crate::outs::alloc_result;
use crate::results::give_error;
use crate::signature::{Kind, Memory};

/// The arguments of a shape function, `#[function("…", shape = name)]`: numbers, and the shapes of tensors, but no data. It returns
/// a shape for each result whose size has a `?`, in their order. The host calls it before the function, and allocates the results.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::{Open, Result, Shapes};
///
///     #[function("repeat(x: f64[n] c, k: int) -> f64[?]", shape = repeat_shape)]
///     fn repeat(x: &[f64], k: i64, z: Open<f64, 1>) -> Result<()> {
///         z.alloc([x.len() * k as usize])?.write_all(x.iter().copied().cycle());
///         Ok(())
///     }
///
///     fn repeat_shape(arguments: Shapes) -> Result<Vec<Vec<usize>>> {
///         Ok(vec![vec![(arguments.dim("n")? * arguments.int("k")?) as usize]])
///     }
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Shapes<'a> {
    call: Call<'a>,
}

impl<'a> Shapes<'a> {
    /// The size of a dimension of the signature.
    pub fn dim(&self, name: &str) -> Result<i64> {
        self.call.dim(name)
    }

    /// The dtype of a dtype variable of the signature.
    pub fn dtype(&self, name: &str) -> Result<Dtype> {
        self.call.dtype(name)
    }

    fn value(&self, name: &str, wanted: &[u32], kind: &str) -> Result<&'a abi::Value> {
        let raw = self.call.raw();
        let value = unsafe { &*raw.arg(self.call.find(0, name)?) };
        if wanted.contains(&value.kind) {
            return Ok(value);
        }
        Err(Error::failed(format!("argument '{name}' is not {kind}, or was not given")))
    }

    /// An integer argument, or the index of an enum's string.
    pub fn int(&self, name: &str) -> Result<i64> {
        let kinds = [abi::kind::INT, abi::kind::UINT, abi::kind::BOOL, abi::kind::ENUM];
        Ok(unsafe { self.value(name, &kinds, "an integer")?.payload.integer })
    }

    /// A float argument.
    pub fn float(&self, name: &str) -> Result<f64> {
        Ok(unsafe { self.value(name, &[abi::kind::FLOAT], "a float")?.payload.number })
    }

    /// The shape of a tensor argument.
    pub fn shape(&self, name: &str) -> Result<&'a [i64]> {
        let view = unsafe { &*self.value(name, &[abi::kind::TENSOR], "a tensor")?.payload.view };
        Ok(match view.ndim {
            0 => &[],
            n => unsafe { std::slice::from_raw_parts(view.shape, n as usize) },
        })
    }
}

/// The code of a shape function.
#[doc(hidden)]
pub unsafe extern "C" fn run_shape<S: Text, F, E>(call: *mut abi::Call) -> Status
where
    F: Fn(Shapes<'_>) -> std::result::Result<Vec<Vec<usize>>, E> + Copy + 'static,
    E: Display + 'static,
{
    const { assert!(size_of::<F>() == 0, "the function must be a function item") };
    let call = RawCall(call);
    guard(call, || {
        let function = unsafe { std::ptr::NonNull::<F>::dangling().as_ref() };
        let shapes = function(Shapes { call: Call::new(call) }).map_err(|error| give_error(call, error))?;
        alloc_all::<S>(call, &shapes)
    })
}

fn alloc_all<S: Text>(call: RawCall, shapes: &[Vec<usize>]) -> Result<(), Failed> {
    let s = const { &S::PARSED };
    let is_open = |i: &usize| {
        s.results[*i].open && s.results[*i].kind == Kind::Tensor && s.results[*i].memory == Memory::Host
    };
    let open: Vec<usize> = (0..s.nresults).filter(is_open).collect();
    if open.len() != shapes.len() {
        let message =
            format!("its shape function returns {} shapes for {} results", shapes.len(), open.len());
        return Err(call.fail(abi::EFAILED, &message));
    }
    for (index, shape) in open.into_iter().zip(shapes) {
        // The dtype of the signature.
        alloc_result(call, index, Dtype::NONE, shape).map_err(|error| give_error(call, error))?;
    }
    Ok(())
}

/// The shape function of an entry.
#[doc(hidden)]
pub const fn shape_of<S: Text, F, E>(_function: &F) -> abi::CallFn
where
    F: Fn(Shapes<'_>) -> std::result::Result<Vec<Vec<usize>>, E> + Copy + 'static,
    E: Display + 'static,
{
    run_shape::<S, F, E>
}
