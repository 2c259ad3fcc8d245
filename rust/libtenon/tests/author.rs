//! Functions and classes of an author, called by a host in Rust. Miri runs this file.

mod host;

use host::{Array, call, float, int, object, tensor, value};
use tenon::Element;
use tenon::abi::{self, Payload, Value, kind};

#[tenon::module(private)]
mod kernels {
    #![forbid(unsafe_code)]
    use tenon::{
        Batch, BatchOut, Bool, Call, Callback, Cells, CellsMut, Error, Kept, Open, Out, Result, Shapes,
        Shared, State, View,
    };

    #[function("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]")]
    fn saxpy(a: f64, x: &[f32], y: &[f32], mut z: Out<f32>) {
        z.write_all(x.iter().zip(y).map(|(x, y)| a as f32 * x + y));
    }

    #[function("trace(x: f64[n, n]) -> float")]
    fn trace(x: View<f64, 2>) -> f64 {
        assert_eq!(x.iter().count(), x.len());
        (0..x.shape()[0]).map(|i| x[[i, i]]).sum()
    }

    #[function("increment(x: T[n] c rw) where T = i32|f64")]
    fn increment<T: std::ops::AddAssign + From<i16> + tenon::Element>(x: &mut [T]) {
        x.iter_mut().for_each(|x| *x += T::from(1));
    }

    #[function("shift(x: f64[n] rw alias, y: f64[n])")]
    fn shift(x: CellsMut<f64, 1>, y: Cells<f64, 1>) {
        for i in 1..x.len() {
            x.set([i], y.at([i - 1]));
        }
    }

    #[function("truths(x: bool[n] c) -> int")]
    fn truths(x: &[Bool]) -> usize {
        x.iter().filter(|x| x.get()).count()
    }

    #[function("zeros(n: int) -> f64[n]")]
    fn zeros(_n: i64, z: &mut [f64]) {
        assert!(z.iter().all(|z| *z == 0.0));
    }

    #[function("squares(n: int) -> f64[?]")]
    fn squares(n: i64, z: Open<f64, 1>) -> Result<()> {
        z.alloc([n as usize])?.write_all((0..n).map(|i| (i * i) as f64));
        Ok(())
    }

    #[function("owned(n: int) -> f64[?] own")]
    fn owned(n: i64) -> Vec<f64> {
        vec![1.5; n as usize]
    }

    #[function("twice(x: f64[n] c) -> f64[n]")]
    fn twice(call: Call, x: &[f64], z: Out<f64>) -> Result<()> {
        z.fill_parallel(call, 2, |i| if x[i] < 0.0 { panic!("negative") } else { 2.0 * x[i] })
    }

    #[function("sum(x: f64[**b], y: f64[**b]) -> f64[**b]")]
    fn sum(call: Call, x: Batch<f64>, y: Batch<f64>, z: BatchOut<f64>) -> Result<()> {
        z.fill(call, 1, (x, y), |(x, y)| x + y)
    }

    #[function("scaled(x: f64[**b, n], w: f64[**b]) -> f64[**b, n]")]
    fn scaled(call: Call, x: Batch<f64, 1>, w: Batch<f64>, z: BatchOut<f64, 1>) -> Result<()> {
        z.for_each(call, 1, (x, w), |(x, w), z| {
            assert!(w[[]] >= 0.0 && z.iter().all(|z| *z == 0.0));
            z.iter_mut().zip(x.iter()).for_each(|(z, x)| *z = x * w[[]]);
        })
    }

    #[state]
    fn load() -> Result<Box<i64>> {
        Ok(Box::new(7))
    }

    #[function("seven() -> int")]
    fn seven(state: State<Box<i64>>) -> i64 {
        **state
    }

    #[function("other_state() -> int")]
    fn other_state(state: State<Vec<i64>>) -> i64 {
        state[0]
    }

    #[function("single(x: T[n] c) -> float where T = f64|f32")]
    fn single(x: &[f64]) -> f64 {
        x.iter().sum()
    }

    #[function("short(n: int) -> f64[n]")]
    fn short(n: i64, mut z: Out<f64>) -> Result<()> {
        if n < 0 {
            return Err(Error::overflow("n is negative"));
        }
        z.push(1.0);
        Ok(())
    }

    #[function("ask(f: callable('() -> float'), x: f64[n] rw) -> float")]
    fn ask(f: Callback<(), f64>, x: CellsMut<f64, 1>) -> f64 {
        let answer = f.call(()).unwrap_or(1.0);
        x.set([0], 8.0); // the callback may have freed the memory
        answer
    }

    #[function("zeroed(x: f64[n] alias) -> f64[n]")]
    fn zeroed(x: Cells<f64, 1>, z: Out<f64>) {
        let z = z.zeroed();
        z[0] = x.at([0]) + 1.0; // the caller may have passed out=x
    }

    #[function("unallocated(n: int) -> f64[?]", shape = three)]
    fn unallocated(_n: i64, _z: Open<f64, 1>) {}

    fn three(_: Shapes) -> Result<Vec<Vec<usize>>> {
        Ok(vec![vec![3]])
    }

    #[function("deep(n: int) -> f64[?]", shape = hundred_dimensions)]
    fn deep(_n: i64, _z: Open<f64, 1>) {}

    fn hundred_dimensions(_: Shapes) -> Result<Vec<Vec<usize>>> {
        Ok(vec![vec![1; 100]])
    }

    #[function("rows(t: handle('Other')) -> int")]
    fn rows(t: &super::others::Other) -> usize {
        t.0.len()
    }

    /// Not the class that `rows` takes.
    #[class]
    struct Other(i64);

    impl Other {
        #[function("Other(n: int)")]
        fn new(n: i64) -> Other {
            Other(n)
        }

        #[function("Other.n(self) -> int")]
        fn n(&self) -> i64 {
            self.0
        }
    }

    #[class]
    struct Table {
        rows: Kept<f64>,
        sums: Shared<f64>,
        calls: usize,
    }

    impl Table {
        #[function("Table(rows: f64[n] c keep)")]
        fn new(rows: Kept<f64>) -> Table {
            let sums = Shared::from(vec![rows.cells().iter().sum()]);
            Table { rows, sums, calls: 0 }
        }

        #[function("Table.sum(self) -> float")]
        fn sum(&self) -> f64 {
            self.rows.to_vec().iter().sum()
        }

        #[function("Table.sums(self) -> f64[?] of(self)")]
        fn sums(&self) -> &Shared<f64> {
            &self.sums
        }

        #[function("Table.add(self, x: f64[n] c rw) -> float")]
        fn add(&self, x: &mut [f64]) -> f64 {
            let sums = &self.sums[..];
            x[0] += 1.0;
            sums[0]
        }

        #[function("Table.set(self, x: f64[n] rw alias) -> float")]
        fn set(&self, x: CellsMut<f64, 1>) -> f64 {
            let sums = &self.sums[..];
            x.set([0], 1.0);
            sums[0]
        }

        #[function("Table.twice(self) -> f64[1]")]
        fn twice(&self, mut z: Out<f64>) {
            z.write_all(self.sums.iter().map(|sum| 2.0 * sum));
        }

        #[function("Table.rows(self) -> f64[?] of(self)")]
        fn rows(&self) -> &Kept<f64> {
            &self.rows
        }

        #[function("Table.replace(self, rows: f64[n] c keep)")]
        fn replace(&mut self, rows: Kept<f64>) {
            *self = Table::new(rows);
        }

        #[function("Table.write(self, x: f64[n] c rw) -> float")]
        fn write(&mut self, x: &mut [f64]) -> f64 {
            let before = self.rows.get([0]).unwrap_or(0.0);
            x[0] = 5.0;
            before + self.rows.get([0]).unwrap_or(0.0)
        }

        #[function("Table.merge(self, other: handle('Table')) -> int")]
        fn merge(&mut self, other: &Table) -> usize {
            self.calls += 1 + other.calls;
            self.calls
        }
    }

    #[class]
    struct Loud;
    impl Loud {
        #[function("Loud()")]
        fn new() -> Loud {
            Loud
        }
    }
    impl Drop for Loud {
        fn drop(&mut self) {
            panic!("Drop panicked")
        }
    }

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the Drop of a payload panicked")
        }
    }

    #[function("explode()")]
    fn explode() {
        std::panic::panic_any(Bomb)
    }
}

mod others {
    #![forbid(unsafe_code)]

    #[tenon::module(private)]
    pub mod kernels {
        #[class]
        pub struct Other(pub Vec<i64>);
    }
    pub use kernels::Other;
}

/// What a condition leaves out is not exported, and need not compile.
#[tenon::module(private)]
mod conditional {
    #![forbid(unsafe_code)]

    #[cfg(any())]
    #[function("absent(x: f64[n] c) -> float")]
    fn absent(x: Missing) -> f64 {
        0.0
    }

    /// The one that is there.
    #[cfg(not(any()))]
    #[function("one() -> int")]
    fn one() -> i64 {
        1
    }

    #[function("one() -> float")]
    #[cfg(any())]
    fn one() -> f64 {
        1.0
    }

    #[cfg(any())]
    #[class]
    struct Absent(Missing);

    #[cfg(any())]
    impl Absent {
        #[function("Absent()")]
        fn new() -> Absent {
            Absent(Missing)
        }
    }

    #[class]
    struct Present;

    impl Present {
        #[function("Present()")]
        fn new() -> Present {
            Present
        }

        #[cfg(any())]
        #[function("Present.absent(self)")]
        fn absent(&self) {}
    }

    #[cfg(any())]
    #[state]
    fn load() -> tenon::Result<Missing> {
        Ok(Missing)
    }

    #[cfg(not(any()))]
    #[state]
    fn load() -> tenon::Result<i64> {
        Ok(3)
    }

    #[function("three() -> int")]
    fn three(state: tenon::State<i64>) -> i64 {
        *state
    }
}

/// The same with the macro, in a scope where macros and names that it needs mean something else.
#[allow(unused_macros, unused_imports, dead_code)]
mod listed {
    #![forbid(unsafe_code)]

    macro_rules! concat {
        ($($part:tt)*) => {
            "one(x: f64[n] c) -> int\0"
        };
    }
    use std::option::Option::{None as Some, Some as None};

    fn one() -> i64 {
        1
    }

    struct Present;

    tenon::export! {
        private mod listed;
        #[cfg(any())]
        /// Not there.
        fn absent = "absent(x: f64[n] c)";
        #[cfg(not(any()))]
        #[cfg(not(any()))]
        /// There.
        fn one = "one() -> int";
        #[cfg(any())]
        class Absent;
        class Present;
        #[cfg(any())]
        const "LEAF = 1";
        const "LEAF = 2";
        #[cfg(any())]
        state load;
    }
}

/// The signatures of a module.
fn signatures(module: &abi::Module) -> Vec<&'static str> {
    let functions = unsafe { std::slice::from_raw_parts(module.functions, module.nfunctions as usize) };
    functions.iter().map(|f| unsafe { std::ffi::CStr::from_ptr(f.signature) }.to_str().unwrap()).collect()
}

fn unset(kind: u32) -> Value {
    Value { kind, flags: abi::VALUE_UNSET, payload: Payload { integer: 0 }, reserved: 0 }
}

fn run(name: &str, args: &[Value], results: &mut [Value]) -> Result<host::State, (i32, String)> {
    call(&kernels::TENON, name, args, results, &[])
}

#[test]
fn slices_and_an_out() {
    let (mut x, mut y) = (Array::new(&[1f32, 2.0, 3.0], &[3]), Array::new(&[10f32, 20.0, 30.0], &[3]));
    let mut z = Array::new(&[f32::NAN; 3], &[3]);
    let (vx, vy, vz) = (x.view(), y.view(), z.view());
    run("saxpy", &[float(2.0), tensor(&vx), tensor(&vy)], &mut [tensor(&vz)]).unwrap();
    assert_eq!(z.elements, [12.0, 24.0, 36.0]);
}

#[test]
fn an_empty_tensor_without_an_address() {
    let (mut x, mut z) = (Array::<f32>::new(&[], &[0]), Array::<f32>::new(&[], &[0]));
    let (mut vx, vz) = (x.view(), z.view());
    vx.data = std::ptr::null_mut();
    run("saxpy", &[float(2.0), tensor(&vx), tensor(&vx)], &mut [tensor(&vz)]).unwrap();
}

#[test]
fn strided_views() {
    let mut x = Array::new(&[1f64, 2.0, 3.0, 4.0], &[2, 2]).transposed();
    let mut results = [unset(kind::FLOAT)];
    run("trace", &[tensor(&x.view())], &mut results).unwrap();
    assert_eq!(unsafe { results[0].payload.number }, 5.0);
    assert_eq!(results[0].flags & abi::VALUE_UNSET, 0);
}

#[test]
fn instances_of_a_generic_function() {
    let (mut x, mut y) = (Array::new(&[1i32, 2], &[2]), Array::new(&[0.5f64], &[1]));
    call(&kernels::TENON, "increment", &[tensor(&x.view())], &mut [], &[i32::DTYPE]).unwrap();
    call(&kernels::TENON, "increment", &[tensor(&y.view())], &mut [], &[f64::DTYPE]).unwrap();
    assert_eq!((&x.elements[..], &y.elements[..]), (&[2, 3][..], &[1.5][..]));
    let error =
        call(&kernels::TENON, "increment", &[tensor(&y.view())], &mut [], &[u8::DTYPE]).err().unwrap();
    assert_eq!(error, (abi::EDTYPE, "the function has no instance for the dtype u8".to_owned()));
}

#[test]
fn cells_may_overlap() {
    let mut x = Array::new(&[1f64, 2.0, 3.0], &[3]);
    let view = x.view();
    run("shift", &[tensor(&view), tensor(&view)], &mut []).unwrap();
    assert_eq!(x.elements, [1.0, 1.0, 1.0]);
}

#[test]
fn bools_are_bytes() {
    let mut x = Array::new(&[0u8, 1, 2, 255], &[4]);
    let mut view = x.view();
    view.dtype = tenon::Bool::DTYPE;
    let mut results = [unset(kind::INT)];
    run("truths", &[tensor(&view)], &mut results).unwrap();
    assert_eq!(unsafe { results[0].payload.integer }, 3);
}

#[test]
fn results_that_are_not_initialised() {
    let mut z = Array::new(&[7f64; 2], &[2]);
    let mut memory = [std::mem::MaybeUninit::<f64>::uninit(); 2];
    let mut view = z.view();
    view.data = memory.as_mut_ptr().cast();
    run("zeros", &[int(2)], &mut [tensor(&view)]).unwrap();
    assert_eq!(unsafe { memory[1].assume_init() }, 0.0);
}

#[test]
fn results_of_unknown_size() {
    let state = run("squares", &[int(3)], &mut [unset(kind::TENSOR)]).unwrap();
    assert_eq!(state.made(0), [0.0, 1.0, 4.0]);
    let state = run("owned", &[int(4)], &mut [unset(kind::TENSOR)]).unwrap();
    let (data, shape, owner) = &state.memory[0];
    assert!(owner.is_some());
    assert_eq!((unsafe { *data.cast::<f64>().add(3) }, &shape[..]), (1.5, &[4][..]));
}

#[test]
fn parallel_loops() {
    let (mut x, mut z) = (Array::new(&[1f64, 2.0, 3.0, 4.0, 5.0], &[5]), Array::new(&[0f64; 5], &[5]));
    run("twice", &[tensor(&x.view())], &mut [tensor(&z.view())]).unwrap();
    assert_eq!(z.elements, [2.0, 4.0, 6.0, 8.0, 10.0]);
    x.elements[3] = -1.0;
    let error = run("twice", &[tensor(&x.view())], &mut [tensor(&z.view())]).err().unwrap();
    assert_eq!(error.1, "the function panicked: negative");
}

#[test]
fn items_of_a_batch_on_threads() {
    let (mut x, mut y, mut z) =
        (Array::new(&[3.0, 0.0], &[2]), Array::new(&[4.0, 1.0], &[2]), Array::new(&[0.0; 2], &[2]));
    let (x, y, out) = (x.view(), y.view(), z.view());
    run("sum", &[tensor(&x), tensor(&y)], &mut [tensor(&out)]).unwrap();
    drop(out);
    assert_eq!(z.elements, [7.0, 1.0]);
    let (mut x, mut w) =
        (Array::new(&[1.0, 2.0, 3.0, 4.0], &[2, 2]).transposed(), Array::new(&[1.0, 10.0], &[2]));
    let mut z = Array::new(&[9.0; 4], &[2, 2]);
    let (x, w, out) = (x.view(), w.view(), z.view());
    run("scaled", &[tensor(&x), tensor(&w)], &mut [tensor(&out)]).unwrap();
    drop(out);
    assert_eq!(z.elements, [1.0, 3.0, 20.0, 40.0]);
    let (mut x, mut w, mut z) =
        (Array::new(&[1.0], &[1, 1]), Array::new(&[-1.0], &[1]), Array::new(&[0.0], &[1, 1]));
    let (x, w, z) = (x.view(), w.view(), z.view());
    let error = run("scaled", &[tensor(&x), tensor(&w)], &mut [tensor(&z)]).err().unwrap();
    assert!(error.1.contains("the function panicked"), "{}", error.1);
}

#[test]
fn the_state_of_a_module() {
    let mut out = [unset(kind::INT)];
    run("seven", &[], &mut out).unwrap();
    assert_eq!(unsafe { out[0].payload.integer }, 7);
    let error = run("other_state", &[], &mut out).err().unwrap();
    assert_eq!(error.1, "the module has no state of the type that the function takes");
}

#[test]
fn a_dtype_without_an_instance() {
    let mut x = Array::new(&[1f32, 2.0], &[2]);
    let x = x.view();
    let types = [f32::DTYPE];
    let error =
        call(&kernels::TENON, "single", &[tensor(&x)], &mut [unset(kind::FLOAT)], &types).err().unwrap();
    assert_eq!(error.1, "the function has no instance for the dtype f32");
}

#[test]
fn an_out_that_is_not_filled() {
    let mut z = Array::new(&[0f64; 2], &[2]);
    let error = run("short", &[int(2)], &mut [tensor(&z.view())]).err().unwrap();
    assert_eq!(error, (abi::EFAILED, "its code wrote only 1 of the 2 elements of result 0".to_owned()));
    let error = run("short", &[int(-1)], &mut [tensor(&z.view())]).err().unwrap();
    assert_eq!(error, (abi::EOVERFLOW, "n is negative".to_owned()));
}

#[test]
fn panics_everywhere() {
    let error = run("explode", &[], &mut []).err().unwrap();
    assert_eq!(error.1, "the function panicked: (its payload is not a string)");
    drop(run("Loud", &[], &mut [unset(kind::HANDLE)]).unwrap());
}

#[test]
fn an_object_that_keeps_an_array() {
    let mut rows = Array::new(&[9f64, 1.0], &[2]);
    let view = rows.view();
    let made = run("Table", &[tensor(&view)], &mut [unset(kind::HANDLE)]).unwrap();
    let table = made.object.as_ref().unwrap().pointer;

    // The object reads what `&mut` would be the only way to.
    let error = run("Table.write", &[object(table), tensor(&view)], &mut [unset(kind::FLOAT)]).err().unwrap();
    assert_eq!(error.0, abi::EOVERLAP);
    assert!(error.1.contains("argument 'x' shares memory with an array that an object"), "{}", error.1);
    let mut other = Array::new(&[1f64], &[1]);
    let mut results = [unset(kind::FLOAT)];
    run("Table.write", &[object(table), tensor(&other.view())], &mut results).unwrap();
    assert_eq!((other.elements[0], unsafe { results[0].payload.number }), (5.0, 18.0));

    // One object twice.
    let error = run("Table.merge", &[object(table), object(table)], &mut [unset(kind::INT)]).err().unwrap();
    let message = "arguments 'self' and 'other' are the same Table, and the function changes one of them";
    assert_eq!(error, (abi::EINVAL, message.to_owned()));

    // Arrays on memory of the object live as long as the object, whatever its methods do.
    let shown = run("Table.sums", &[object(table)], &mut [unset(kind::TENSOR)]).unwrap();
    let kept = run("Table.rows", &[object(table)], &mut [unset(kind::TENSOR)]).unwrap();
    run("Table.replace", &[object(table), tensor(&other.view())], &mut []).unwrap();
    assert_eq!(unsafe { *shown.memory[0].0.cast::<f64>() }, 10.0);
    assert_eq!(unsafe { *kept.memory[0].0.cast::<f64>() }, 9.0);
    drop(made);

    // Nothing is kept any more.
    let made = run("Table", &[tensor(&other.view())], &mut [unset(kind::HANDLE)]).unwrap();
    let table = made.object.as_ref().unwrap().pointer;
    run("Table.write", &[object(table), tensor(&view)], &mut [unset(kind::FLOAT)]).unwrap();
}

#[test]
fn conditions() {
    let wanted = ["one() -> int", "class Present", "Present()", "three() -> int"];
    assert_eq!(signatures(&conditional::TENON), wanted);
    let mut results = [unset(kind::INT)];
    call(&conditional::TENON, "three", &[], &mut results, &[]).unwrap();
    assert_eq!(unsafe { results[0].payload.integer }, 3);
    assert_eq!(signatures(&listed::TENON), ["one() -> int", "class Present", "LEAF = 2"]);
    assert!(listed::TENON.load.is_none());
}

#[test]
fn memory_of_an_object_that_the_caller_passes_as_writable() {
    let mut rows = Array::new(&[9f64, 1.0], &[2]);
    let made = run("Table", &[tensor(&rows.view())], &mut [unset(kind::HANDLE)]).unwrap();
    let table = made.object.as_ref().unwrap().pointer;
    let shown = run("Table.sums", &[object(table)], &mut [unset(kind::TENSOR)]).unwrap();
    // A framework that does not know read-only arrays passes it on.
    let mut view = *Array::new(&[0f64], &[1]).view();
    let (mut shape, mut strides) = ([1], [1]);
    view.data = shown.memory[0].0;
    (view.shape, view.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
    for name in ["Table.add", "Table.set"] {
        let args = [object(table), tensor(&view)];
        let error = run(name, &args, &mut [unset(kind::FLOAT)]).err().unwrap();
        assert_eq!(error.0, abi::EOVERLAP);
        assert!(error.1.contains("argument 'x' shares memory with an array that an object"), "{}", error.1);
    }
    let error = run("Table.twice", &[object(table)], &mut [tensor(&view)]).err().unwrap();
    assert!(error.1.contains("result 0 shares memory with"), "{}", error.1);
    // Cells may still be those of memory that is kept.
    let mut results = [unset(kind::FLOAT)];
    run("Table.set", &[object(table), tensor(&rows.view())], &mut results).unwrap();
    assert_eq!((rows.elements[0], unsafe { results[0].payload.number }), (1.0, 10.0));
    run("Table.twice", &[object(table)], &mut [tensor(&Array::new(&[0f64], &[1]).view())]).unwrap();
}

#[test]
fn two_classes_with_one_name() {
    let made = run("Other", &[int(5)], &mut [unset(kind::HANDLE)]).unwrap();
    let other = made.object.as_ref().unwrap().pointer;
    let error = run("rows", &[object(other)], &mut [unset(kind::INT)]).err().unwrap();
    let message = "argument 't' is an object of another Rust type than the function takes, also called Other";
    assert_eq!(error, (abi::EDTYPE, message.to_owned()));
    run("Other.n", &[object(other)], &mut [unset(kind::INT)]).unwrap();
}

#[test]
fn results_on_a_device() {
    let mut x = Array::new(&[1f64, 2.0], &[2]);
    let (x, mut z) = (x.view(), *Array::new(&[0f64; 2], &[2]).view());
    let (mut shape, mut strides) = ([2], [1]);
    (z.shape, z.strides) = (shape.as_mut_ptr(), strides.as_mut_ptr());
    z.device = abi::Device { kind: 2, index: 0 };
    z.data = std::ptr::without_provenance_mut(64); // memory that the CPU does not have
    let calls: [(&str, &[Value]); 4] = [
        ("twice", &[tensor(&x)]),
        ("zeros", &[int(2)]),
        ("sum", &[tensor(&x), tensor(&x)]),
        ("zeroed", &[tensor(&x)]),
    ];
    for (name, args) in calls {
        let error = run(name, args, &mut [tensor(&z)]).err().unwrap();
        assert_eq!(error.1, "result 0 is on a device, as an argument is; only an `AnyTensorMut` can be");
    }
}

#[test]
fn a_callback_that_fails_ends_the_function() {
    let mut x = Array::new(&[1f64], &[1]);
    let f = value(kind::CALLABLE, Payload { integer: 0 });
    let error = run("ask", &[f, tensor(&x.view())], &mut [unset(kind::FLOAT)]).err().unwrap();
    assert_eq!((error.1.as_str(), x.elements[0]), ("the callback raised an exception", 1.0));
}

#[test]
fn a_result_that_is_an_argument_too() {
    let mut x = Array::new(&[1f64], &[1]);
    let view = x.view();
    let error = run("zeroed", &[tensor(&view)], &mut [tensor(&view)]).err().unwrap();
    assert!(error.1.contains("has no references"), "{}", error.1);
}

#[test]
fn results_of_shape_functions() {
    let error = run("unallocated", &[int(1)], &mut [unset(kind::TENSOR)]).err().unwrap();
    assert_eq!(error.1, "its code wrote only 0 of the 3 elements of result 0");
    let error = run("deep", &[int(1)], &mut [unset(kind::TENSOR)]).err().unwrap();
    assert_eq!(error.1, "a result has at most 64 dimensions, not 100");
}

#[test]
fn items_without_an_address() {
    let (mut x, mut w, mut z) =
        (Array::<f64>::new(&[], &[2, 0]), Array::new(&[1.0, 2.0], &[2]), Array::<f64>::new(&[], &[2, 0]));
    let (mut x, w, mut z) = (x.view(), w.view(), z.view());
    (x.data, z.data) = (std::ptr::null_mut(), std::ptr::null_mut());
    run("scaled", &[tensor(&x), tensor(&w)], &mut [tensor(&z)]).unwrap();
}

#[test]
fn sizes_that_no_host_can_express() {
    assert!(tenon::Owned::<f64, 2>::new(Vec::new(), [0, usize::MAX]).is_err());
    assert!(std::panic::catch_unwind(|| tenon::Shared::<f64, 2>::new(Vec::new(), [usize::MAX, 0])).is_err());
}
