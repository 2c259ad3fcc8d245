//! Dtypes, devices, and the Rust types of elements.

use core::fmt;

/// The dtype of a tensor, as DLPack describes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dtype {
    /// The family: signed integers, floats, …
    pub code: u8,
    /// The size of one lane in bits.
    pub bits: u8,
    /// The number of lanes, which is 1 for most tensors.
    pub lanes: u16,
}

impl Dtype {
    /// A dtype of one lane.
    pub const fn new(code: u8, bits: u8) -> Dtype {
        Dtype { code, bits, lanes: 1 }
    }

    pub(crate) const NONE: Dtype = Dtype { code: 0, bits: 0, lanes: 0 };

    pub(crate) const fn same(self, other: Dtype) -> bool {
        self.code == other.code && self.bits == other.bits && self.lanes == other.lanes
    }

    /// The name in signatures, or `"?"` if the dtype has no element type in this crate.
    pub const fn name(self) -> &'static str {
        if self.lanes != 1 {
            return "?";
        }
        match (self.code, self.bits) {
            (0, 8) => "i8",
            (0, 16) => "i16",
            (0, 32) => "i32",
            (0, 64) => "i64",
            (1, 8) => "u8",
            (1, 16) => "u16",
            (1, 32) => "u32",
            (1, 64) => "u64",
            (2, 16) => "f16",
            (2, 32) => "f32",
            (2, 64) => "f64",
            (4, 16) => "bf16",
            (5, 64) => "c64",
            (5, 128) => "c128",
            (6, 8) => "bool",
            _ => "?",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A device, as DLPack describes it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    /// The type: [`Device::CPU`] is 1, CUDA is 2.
    pub kind: i32,
    /// The number of the device.
    pub index: i32,
}

impl Device {
    /// Main memory.
    pub const CPU: Device = Device { kind: 1, index: 0 };

    /// Whether the CPU can read the memory.
    pub fn is_cpu(self) -> bool {
        matches!(self.kind, 1 | 3 | 11 | 13)
    }

    /// Whether this is CUDA memory.
    pub fn is_cuda(self) -> bool {
        self.kind == 2
    }
}

/// A type of elements. All bit patterns are values, and there is nothing to drop.
///
/// # Safety
/// Every bit pattern of the dtype is a value of the type, zeros included, and the size and alignment are those of the dtype.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// The dtype in signatures.
    const DTYPE: Dtype;
    #[doc(hidden)]
    const NAME: &'static str;
    /// The kind of a list of these elements that is not a tensor (`ints`, `floats`, `bytes`).
    #[doc(hidden)]
    const LIST: u32 = 0;
}

macro_rules! elements {
    ($($type:ty: $code:literal $bits:literal $(list $list:ident)?;)*) => {
        $(unsafe impl Element for $type {
            const DTYPE: Dtype = Dtype::new($code, $bits);
            const NAME: &'static str = stringify!($type);
            $(const LIST: u32 = crate::abi::kind::$list;)?
        })*
    };
}

elements! {
    i8: 0 8;
    i16: 0 16;
    i32: 0 32;
    i64: 0 64 list INTS;
    u8: 1 8 list BYTES;
    u16: 1 16;
    u32: 1 32;
    u64: 1 64;
    f32: 2 32;
    f64: 2 64 list FLOATS;
    F16: 2 16;
    Bf16: 4 16;
    Complex<f32>: 5 64;
    Complex<f64>: 5 128;
    Bool: 6 8;
}

#[cfg(feature = "half")]
elements! {
    half::f16: 2 16;
    half::bf16: 4 16;
}

/// An element of a tensor of bools. Any byte other than 0 is true: frameworks can pass others than 0 and 1, which a `bool`
/// of Rust must not have.
#[repr(transparent)]
#[derive(Clone, Copy, Default)]
pub struct Bool(u8);

impl Bool {
    /// The truth value.
    #[inline]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    #[inline]
    fn from(value: bool) -> Bool {
        Bool(value as u8)
    }
}

impl From<Bool> for bool {
    #[inline]
    fn from(value: Bool) -> bool {
        value.get()
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Bool) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool {}

impl fmt::Debug for Bool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// A complex number, with the layout of C and of every framework.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Complex<T> {
    /// The real part.
    pub re: T,
    /// The imaginary part.
    pub im: T,
}

impl<T> Complex<T> {
    /// A complex number of its two parts.
    pub const fn new(re: T, im: T) -> Complex<T> {
        Complex { re, im }
    }
}

/// A float of 16 bits as its bits, with conversions. The feature `half` has arithmetic.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct F16(
    /// The bits.
    pub u16,
);

/// The upper half of an `f32`, with conversions. The feature `half` has arithmetic.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Bf16(
    /// The bits.
    pub u16,
);

impl Bf16 {
    /// The value as an `f32`, which is exact.
    #[inline]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// The nearest value; ties go to the even one.
    #[inline]
    pub fn from_f32(value: f32) -> Bf16 {
        let bits = value.to_bits();
        if value.is_nan() {
            return Bf16((bits >> 16) as u16 | 0x40);
        }
        Bf16(((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16)
    }
}

impl F16 {
    /// The value as an `f32`, which is exact.
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & 0x8000) << 16;
        let exponent = u32::from(self.0 >> 10 & 0x1f);
        let fraction = u32::from(self.0 & 0x3ff);
        if exponent == 0 {
            let value = fraction as f32 * f32::from_bits(0x3380_0000); // 2^-24
            return f32::from_bits(value.to_bits() | sign);
        }
        let exponent = if exponent == 0x1f { 0xff } else { exponent + 112 };
        f32::from_bits(sign | exponent << 23 | fraction << 13)
    }

    /// The nearest value; ties go to the even one.
    pub fn from_f32(value: f32) -> F16 {
        let bits = value.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let rest = bits & 0x7fff_ffff;
        if rest > 0x7f80_0000 {
            return F16(sign | 0x7e00);
        }
        if rest >= 0x4780_0000 {
            return F16(sign | 0x7c00);
        }
        if rest < 0x3880_0000 {
            // Subnormal: adding this power of two makes the FPU round at the right bit.
            let shifted = f32::from_bits(rest) + 0.5;
            return F16(sign | (shifted.to_bits() - 0x3f00_0000) as u16);
        }
        let odd = rest >> 13 & 1;
        F16(sign | ((rest - 0x3800_0000 + 0xfff + odd) >> 13) as u16)
    }
}

impl fmt::Debug for F16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}

impl fmt::Debug for Bf16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_f32().fmt(f)
    }
}
