//! Failures of functions.

use std::any::Any;
use std::fmt;

use crate::abi::{self, Status};

/// The result of a function that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call fails, with the exception that it becomes in Python. In Elixir the status is part of the error's reason.
///
/// Any other error type fails the call too, with its `Display` text, as a RuntimeError.
///
/// ```
/// fn root(x: f64) -> tenon::Result<f64> {
///     if x < 0.0 {
///         return Err(tenon::Error::invalid(format!("x is {x}, which has no root")));
///     }
///     Ok(x.sqrt())
/// }
/// assert_eq!(root(-1.0).unwrap_err().to_string(), "x is -1, which has no root");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    status: Status,
    message: String,
}

impl Error {
    /// A ValueError.
    pub fn invalid(message: impl Into<String>) -> Error {
        Error { status: abi::EINVAL, message: message.into() }
    }

    /// An IndexError. From `__getitem__` it ends an iteration.
    pub fn bounds(message: impl Into<String>) -> Error {
        Error { status: abi::EBOUNDS, message: message.into() }
    }

    /// An OverflowError.
    pub fn overflow(message: impl Into<String>) -> Error {
        Error { status: abi::EOVERFLOW, message: message.into() }
    }

    /// A TypeError.
    pub fn dtype(message: impl Into<String>) -> Error {
        Error { status: abi::EDTYPE, message: message.into() }
    }

    /// A MemoryError.
    pub fn memory(message: impl Into<String>) -> Error {
        Error { status: abi::ENOMEM, message: message.into() }
    }

    /// A RuntimeError.
    pub fn failed(message: impl Into<String>) -> Error {
        Error { status: abi::EFAILED, message: message.into() }
    }

    /// The status in C.
    pub fn status(&self) -> Status {
        self.status
    }

    #[allow(dead_code)] // the features `host` and `pyo3` use it
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Error {
        Error { status, message: message.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// The status of any error type.
pub(crate) fn status_of(error: &dyn Any) -> Status {
    type Boxed = Box<dyn std::error::Error>;
    type BoxedSend = Box<dyn std::error::Error + Send + Sync>;
    if let Some(error) = error.downcast_ref::<Error>() {
        return error.status;
    }
    if error.is::<std::collections::TryReserveError>() {
        return abi::ENOMEM;
    }
    let inner = match (error.downcast_ref::<Boxed>(), error.downcast_ref::<BoxedSend>()) {
        (Some(inner), _) => inner.downcast_ref::<Error>(),
        (_, Some(inner)) => inner.downcast_ref::<Error>(),
        _ => None,
    };
    inner.map_or(abi::EFAILED, |error| error.status)
}
