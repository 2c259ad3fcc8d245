//! The memory that is borrowed in this extension: what one part of it may write to, no other part borrows.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, PyResult, Python};

use crate::kept::Writing;

/// Memory that is borrowed.
struct Range {
    start: usize,
    end: usize,
    writing: Option<Writing>,
}

impl Range {
    const ENDED: Range = Range { start: usize::MAX, end: usize::MAX, writing: None };
}

struct Borrows {
    ranges: Vec<Range>,
    /// How many are written to.
    exclusive: usize,
    /// How many have ended before a later one.
    ended: usize,
}

/// The borrows of all threads. They are guarded by the interpreter lock, or without one by a lock of their own.
struct Table {
    lock: AtomicBool,
    borrows: UnsafeCell<Borrows>,
}

unsafe impl Sync for Table {}

static TABLE: Table = Table {
    lock: AtomicBool::new(false),
    borrows: UnsafeCell::new(Borrows { ranges: Vec::new(), exclusive: 0, ended: 0 }),
};

impl Table {
    /// Runs a body, which does not call Python, on an attached thread.
    #[inline(always)]
    unsafe fn with<R>(&self, body: impl FnOnce(&mut Borrows) -> R) -> R {
        let locks = unsafe { tenon_sys::tenon_rs_free_threaded };
        while locks && self.lock.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let result = body(unsafe { &mut *self.borrows.get() });
        if locks {
            self.lock.store(false, Ordering::Release);
        }
        result
    }
}

/// A borrow that is alive: its index. It stays on its thread, which is attached whenever a borrow can end.
pub(super) struct Entry(usize, PhantomData<*const ()>);

#[cold]
fn overlap() -> PyErr {
    PyValueError::new_err(
        "the memory of the array overlaps another array that is borrowed, and one of them is written to",
    )
}

/// Notes a borrow of memory that is only read. Refuses it if the memory is borrowed to be written to.
#[inline(always)]
pub(super) fn register(_py: Python<'_>, start: usize, end: usize) -> PyResult<Entry> {
    let entry = unsafe {
        TABLE.with(|borrows| {
            if borrows.exclusive > 0 && borrows.overlaps(start, end, false) {
                return None;
            }
            borrows.ranges.push(Range { start, end, writing: None });
            Some(borrows.ranges.len() - 1)
        })
    };
    entry.map(|index| Entry(index, PhantomData)).ok_or_else(overlap)
}

/// Notes a borrow of memory that is written to. Refuses it if the memory is borrowed, or may be read.
pub(super) fn register_exclusive(_py: Python<'_>, start: usize, end: usize) -> PyResult<Entry> {
    let writing = Writing::begin(start, end).ok_or_else(overlap)?;
    let entry = unsafe {
        TABLE.with(|borrows| {
            if borrows.overlaps(start, end, true) {
                return None;
            }
            borrows.exclusive += 1;
            borrows.ranges.push(Range { start, end, writing: Some(writing) });
            Some(borrows.ranges.len() - 1)
        })
    };
    entry.map(|index| Entry(index, PhantomData)).ok_or_else(overlap)
}

impl Borrows {
    fn overlaps(&self, start: usize, end: usize, exclusive: bool) -> bool {
        let overlap = |other: &Range| other.start < end && start < other.end;
        self.ranges.iter().any(|other| overlap(other) && (exclusive || other.writing.is_some()))
    }

    /// Ends a borrow, in any order. Those after it keep their indices.
    #[cold]
    fn remove(&mut self, index: usize) {
        self.exclusive -= usize::from(self.ranges[index].writing.is_some());
        self.ended += 1;
        self.ranges[index] = Range::ENDED;
        while self.ranges.last().is_some_and(|range| range.start == Range::ENDED.start) {
            self.ranges.pop();
            self.ended -= 1;
        }
    }
}

impl Drop for Entry {
    #[inline(always)]
    fn drop(&mut self) {
        unsafe {
            TABLE.with(|borrows| {
                // Borrows mostly end in the reverse order.
                if borrows.ranges.len() == self.0 + 1 && (borrows.exclusive | borrows.ended) == 0 {
                    borrows.ranges.set_len(self.0); // a range that is only read has nothing to drop
                } else {
                    borrows.remove(self.0);
                }
            });
        }
    }
}
