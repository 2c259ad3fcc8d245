//! Memory that outlives a call: `Kept` and `Shared`.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use crate::abi::{self, KeptShare};
use crate::call::{Failed, RawCall};
use crate::check::{Form, Type};
use crate::dtype::Element;
use crate::error::Result;
use crate::function::{Param, Place};
use crate::tensors::{Cells, has_elements};

// ----------------------------------------------------------------------------------------------------- kept memory

/// Memory that Rust code may read at any time (that of every `Kept`, of every `Shared` that an array of the caller shows, and of
/// tensors of `tenon::python`), and memory that is borrowed to be written to.
struct Ranges {
    /// Start and number; the end, and whether the memory never changes.
    readable: BTreeMap<(usize, usize), (usize, bool)>,
    next: usize,
    /// The length of the longest range that there ever was.
    longest: usize,
    writable: Vec<(usize, usize)>,
}

static RANGES: Mutex<Ranges> =
    Mutex::new(Ranges { readable: BTreeMap::new(), next: 0, longest: 0, writable: Vec::new() });
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How many of the ranges never change.
static CONSTANT: AtomicUsize = AtomicUsize::new(0);

fn ranges() -> MutexGuard<'static, Ranges> {
    RANGES.lock().unwrap_or_else(|lock| lock.into_inner())
}

impl Ranges {
    /// Whether some of the memory may be read; if `constant`, only memory that never changes counts.
    fn is_readable(&self, start: usize, end: usize, constant: bool) -> bool {
        let first = start.saturating_sub(self.longest);
        let counts = |(last, is_constant): &(usize, bool)| *last > start && (*is_constant || !constant);
        start < end && self.readable.range((first, 0)..(end, 0)).any(|(_, range)| counts(range))
    }

    fn insert(&mut self, start: usize, end: usize, constant: bool) -> Reading {
        let key = (start, self.next);
        self.next += 1;
        self.longest = self.longest.max(end - start);
        self.readable.insert(key, (end, constant));
        COUNT.fetch_add(1, Ordering::Relaxed);
        CONSTANT.fetch_add(constant.into(), Ordering::Relaxed);
        Reading { key, constant }
    }

    fn is_writable(&self, start: usize, end: usize) -> bool {
        self.writable.iter().any(|(first, last)| *first < end && start < *last)
    }
}

/// Memory that may be read until this is dropped.
pub(crate) struct Reading {
    key: (usize, usize),
    constant: bool,
}

impl Reading {
    /// None if the memory is borrowed to be written to.
    pub(crate) fn begin(view: &abi::View) -> Option<Reading> {
        let (start, end) = extent(view);
        let mut ranges = ranges();
        if ranges.is_writable(start, end) {
            return None;
        }
        Some(ranges.insert(start, end, false))
    }

    /// Of memory that is only reached through shared references.
    fn of_constant<T>(elements: &[T]) -> Reading {
        let range = elements.as_ptr_range();
        ranges().insert(range.start as usize, range.end as usize, true)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        ranges().readable.remove(&self.key);
        COUNT.fetch_sub(1, Ordering::Relaxed);
        CONSTANT.fetch_sub(self.constant.into(), Ordering::Relaxed);
    }
}

/// Memory that is written to through `&mut` until this is dropped.
#[cfg(feature = "pyo3")]
pub(crate) struct Writing(usize, usize);

#[cfg(feature = "pyo3")]
impl Writing {
    /// None if Rust code may read the memory.
    pub(crate) fn begin(start: usize, end: usize) -> Option<Writing> {
        let mut ranges = ranges();
        if ranges.is_readable(start, end, false) {
            return None;
        }
        ranges.writable.push((start, end));
        COUNT.fetch_add(1, Ordering::Relaxed);
        Some(Writing(start, end))
    }
}

#[cfg(feature = "pyo3")]
impl Drop for Writing {
    fn drop(&mut self) {
        let mut ranges = ranges();
        if let Some(at) = ranges.writable.iter().rposition(|range| *range == (self.0, self.1)) {
            ranges.writable.swap_remove(at);
        }
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The first byte of a tensor's memory, and the one after the last.
pub(crate) fn extent(view: &abi::View) -> (usize, usize) {
    let base = view.data as usize;
    if view.numel == 0 {
        return (base, base);
    }
    let size = (usize::from(view.dtype.bits) * usize::from(view.dtype.lanes)).div_ceil(8);
    let (mut low, mut high) = (0isize, 0isize);
    for i in 0..view.ndim as usize {
        let reach = unsafe { (*view.shape.add(i) - 1) * *view.strides.add(i) } as isize;
        if reach < 0 {
            low += reach;
        } else {
            high += reach;
        }
    }
    (base.wrapping_add_signed(low * size as isize), base.wrapping_add_signed(high * size as isize) + size)
}

/// Refuses memory that would become `&mut` if an object of this library keeps it. The object reads it during calls, and the
/// compiler relies on `&mut` being the only way to the memory.
#[inline(always)]
pub(crate) fn refuse_overlap(call: RawCall, place: Place, view: &abi::View) -> Result<(), Failed> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    refuse_kept(call, place, view, false)
}

/// Refuses memory of a `Shared`, whose elements are references, if it is written to at all. The caller's arrays show it read-only,
/// but not every framework knows that.
#[inline(always)]
pub(crate) fn refuse_constant(call: RawCall, place: Place, view: &abi::View) -> Result<(), Failed> {
    if CONSTANT.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    refuse_kept(call, place, view, true)
}

#[cold]
fn refuse_kept(call: RawCall, place: Place, view: &abi::View, constant: bool) -> Result<(), Failed> {
    let (start, end) = extent(view);
    let ranges = ranges();
    if !ranges.is_readable(start, end, constant) && (constant || !ranges.is_writable(start, end)) {
        return Ok(());
    }
    drop(ranges);
    let what = call.describe(place);
    let message = format!(
        "{what} shares memory with an array that an object of this library keeps, and is written to; pass a copy"
    );
    Err(call.fail(abi::EOVERLAP, &message))
}

/// A share of an argument.
struct Share {
    share: *mut KeptShare,
    reading: Option<Reading>,
}

// The share may be released on any thread. Its memory is only read.
unsafe impl Send for Share {}
unsafe impl Sync for Share {}

impl Drop for Share {
    fn drop(&mut self) {
        self.reading = None; // the memory is not ours any more after the release
        dropped().push(Dropped(self.share));
        ANY_DROPPED.store(true, Ordering::Release);
    }
}

/// A share to release.
struct Dropped(*mut KeptShare);

unsafe impl Send for Dropped {}

/// A release may run code of the caller, such as a finalizer in Python, which may write to the arguments of the call that runs. So
/// shares are released when no reference to them is alive: after a function, or after an object was destroyed.
static DROPPED: Mutex<Vec<Dropped>> = Mutex::new(Vec::new());
static ANY_DROPPED: AtomicBool = AtomicBool::new(false);

fn dropped() -> MutexGuard<'static, Vec<Dropped>> {
    DROPPED.lock().unwrap_or_else(|lock| lock.into_inner())
}

/// Releases the shares that were dropped.
#[inline(always)]
pub(crate) fn release_dropped() {
    if ANY_DROPPED.load(Ordering::Relaxed) {
        release_all();
    }
}

#[cold]
fn release_all() {
    ANY_DROPPED.store(false, Ordering::Relaxed);
    let shares = std::mem::take(&mut *dropped());
    for Dropped(share) in shares {
        unsafe { ((*share).release)(share) }
    }
}

/// An argument that is kept after the call (`keep` in the signature), with D dimensions. It has a share of the memory until it is
/// dropped, on any thread: the share is released when the function that drops it has ended, or, if it is dropped outside of a call, by
/// the next call of the library.
///
/// The caller still has the array, and may write to it between calls. Therefore the elements are copied out by
/// [`cells`](Kept::cells), and a call that would give the same memory to a function of this library as `&mut` is refused with a
/// ValueError.
pub struct Kept<T, const D: usize = 1> {
    share: Arc<Share>,
    life: PhantomData<T>,
}

impl<T: Element, const D: usize> Kept<T, D> {
    /// The elements.
    #[inline]
    pub fn cells(&self) -> Cells<'_, T, D> {
        unsafe { Cells::from_raw(&*(*self.share.share).view) }
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.cells().shape()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.cells().len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the element at these indices, or None if an index is too large.
    #[inline]
    pub fn get(&self, index: [usize; D]) -> Option<T> {
        self.cells().get(index)
    }

    /// Copies the elements, the last index fastest.
    pub fn to_vec(&self) -> Vec<T> {
        self.cells().to_vec()
    }

    pub(crate) fn raw(&self) -> &abi::View {
        unsafe { &*(*self.share.share).view }
    }
}

/// Another owner of the same share.
impl<T, const D: usize> Clone for Kept<T, D> {
    fn clone(&self) -> Self {
        Kept { share: self.share.clone(), life: PhantomData }
    }
}

unsafe impl<T: Element, const D: usize> Param for Kept<T, D> {
    const TYPE: Type = Type::tensor(Form::Kept, ["Kept<", T::NAME, ", _>"], T::DTYPE, 0, D as i32);
    type Slot = ();
    type At<'x> = Kept<T, D>;
    unsafe fn read<'x>(call: RawCall, place: Place, _: &'x ()) -> Result<Kept<T, D>, Failed> {
        let keep = call.need(call.host().arg_keep, "arguments that outlive a call")?;
        let share = unsafe { keep(call.0, place.index as i32) };
        if share.is_null() {
            return Err(Failed(abi::EFAILED)); // the host has reported it
        }
        let reading = Reading::begin(unsafe { &*(*share).view });
        let share = Share { share, reading };
        if share.reading.is_none() {
            let message = format!("{} is borrowed to be written to; pass a copy", call.describe(place));
            return Err(call.fail(abi::EOVERLAP, &message));
        }
        Ok(Kept { share: Arc::new(share), life: PhantomData })
    }
}

// ---------------------------------------------------------------------------------------------------- shared memory

/// Elements that never change, with several owners: this library, and arrays of the caller. Return a reference to it as an
/// `of(self)` result, without a copy. The array is read-only; a framework that does not know read-only arrays can pass it on as one
/// that is not, and then a function of this library that would write to it refuses it with a ValueError.
///
/// ```
/// #[tenon::module(private)]
/// mod kernels {
///     use tenon::{Result, Shared};
///     #[class]
///     struct Squares { all: Shared<f64> }
///     impl Squares {
///         #[function("Squares(n: int)")]
///         fn new(n: i64) -> Result<Squares> {
///             Ok(Squares { all: Shared::from((0..n).map(|i| (i * i) as f64).collect::<Vec<_>>()) })
///         }
///         #[function("Squares.all(self) -> f64[?] of(self)")]
///         fn all(&self) -> &Shared<f64> { &self.all }
///     }
/// }
/// ```
pub struct Shared<T, const D: usize = 1> {
    block: Arc<Block<T>>,
    shape: [usize; D],
}

struct Block<T> {
    /// Since an array of the caller shows the elements.
    shown: OnceLock<Reading>,
    elements: Vec<T>,
}

impl<T> Block<T> {
    fn new(elements: Vec<T>) -> Arc<Block<T>> {
        Arc::new(Block { shown: OnceLock::new(), elements })
    }
}

impl<T: Element> From<Vec<T>> for Shared<T, 1> {
    fn from(elements: Vec<T>) -> Shared<T, 1> {
        let shape = [elements.len()];
        Shared { block: Block::new(elements), shape }
    }
}

impl<T: Element, const D: usize> Shared<T, D> {
    /// Elements in C order with this shape.
    ///
    /// # Panics
    /// If the shape has another number of elements.
    pub fn new(elements: Vec<T>, shape: [usize; D]) -> Shared<T, D> {
        assert!(
            has_elements(&shape, elements.len()),
            "the shape {shape:?} does not have {} elements",
            elements.len()
        );
        Shared { block: Block::new(elements), shape }
    }

    /// What an array of the caller that shows the elements keeps.
    pub(crate) fn show(&self) -> Pin {
        self.block.shown.get_or_init(|| Reading::of_constant(&self.block.elements));
        self.block.clone()
    }

    /// The sizes of the dimensions.
    pub fn shape(&self) -> [usize; D] {
        self.shape
    }
}

impl<T, const D: usize> std::ops::Deref for Shared<T, D> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.block.elements
    }
}

impl<T, const D: usize> Clone for Shared<T, D> {
    fn clone(&self) -> Self {
        Shared { block: self.block.clone(), shape: self.shape }
    }
}

/// What an object of a class holds until it is destroyed because arrays of the caller point to it.
#[doc(hidden)]
pub(crate) type Pin = Arc<dyn std::any::Any + Send + Sync>;

pub(crate) fn pin_kept<T: Element, const D: usize>(kept: &Kept<T, D>) -> Pin {
    kept.share.clone()
}
