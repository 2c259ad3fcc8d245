//! The library that the tests of Python, torch, JAX and Elixir load: a function of each kind.
#![forbid(unsafe_code)]

tenon::choices! {
    /// How to reduce.
    pub enum Mode {
        /// The mean.
        Mean = "mean",
        /// The largest element.
        Max = "max",
    }
}

/// Kernels in Rust.
///
/// Each has one kind of argument.
#[tenon::module]
mod rust_kernels {
    use std::cell::Cell;
    use std::fmt;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::Mode;
    use tenon::{
        AnyTensor, AnyTensorMut, Batch, BatchOut, Bf16, Bool, Call, Callback, Cells, CellsMut, Complex,
        Dtype, Error, Kept, List, ListMut, Open, OpenList, Out, OutList, Owned, Result, Shapes, Shared,
        State, Strs, View, ViewMut,
    };

    /// Returns a*x + y.
    #[function("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]")]
    fn saxpy(a: f64, x: &[f32], y: &[f32], mut z: Out<f32>) {
        let a = a as f32;
        z.write_all(x.iter().zip(y).map(|(x, y)| a * x + y));
    }

    /// Returns the dot product.
    #[function("dot(x: f32[n] c, y: f32[n] c) -> float")]
    fn dot(x: &[f32], y: &[f32]) -> f64 {
        x.iter().zip(y).map(|(x, y)| f64::from(x * y)).sum()
    }

    #[function("released(x: f32[n] c) -> bool", release_lock)]
    fn released(call: Call, _x: &[f32]) -> bool {
        call.is_unlocked()
    }

    #[function("twice(x: f64[n] c) -> f64[n]")]
    fn twice(call: Call, x: &[f64], z: Out<f64>) -> Result<()> {
        z.fill_parallel(call, 1000, |i| 2.0 * x[i])
    }

    #[function("transposed(x: f64[n, m]) -> f64[m, n]")]
    fn transposed(x: View<f64, 2>, z: &mut [f64]) {
        let [n, m] = x.shape();
        for i in 0..n {
            for j in 0..m {
                z[j * n + i] = x[[i, j]];
            }
        }
    }

    /// Adds 1 to each element.
    #[function("increment(x: T[n] c rw) where T = integer|f32|f64")]
    fn increment<T: Step>(x: &mut [T]) {
        x.iter_mut().for_each(|x| *x = x.next());
    }

    trait Step: tenon::Element {
        fn next(self) -> Self;
    }
    macro_rules! steps { ($($type:ty)*) => { $(impl Step for $type { fn next(self) -> Self { self + 1 as $type } })* } }
    steps! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

    #[function("add_scaled(x: f64[n, m] rw, by: float = 2.0)")]
    fn add_scaled(mut x: ViewMut<f64, 2>, by: f64) {
        let [n, m] = x.shape();
        for i in 0..n {
            for j in 0..m {
                x[[i, j]] += by;
            }
        }
    }

    #[function("shift(x: f64[n] rw alias, y: f64[n])")]
    fn shift(x: CellsMut<f64, 1>, y: Cells<f64, 1>) {
        for i in 1..x.len() {
            x.set([i], y.at([i - 1]));
        }
    }

    #[function("halves(x: bf16[n] c) -> bf16[n]")]
    fn halves(x: &[Bf16], mut z: Out<Bf16>) {
        z.write_all(x.iter().map(|x| Bf16::from_f32(x.to_f32() / 2.0)));
    }

    #[function("negated(x: bool[n] c) -> bool[n], int")]
    fn negated(x: &[Bool], mut z: Out<Bool>) -> usize {
        z.write_all(x.iter().map(|x| Bool::from(!x.get())));
        x.iter().filter(|x| x.get()).count()
    }

    #[function("reduce(x: f64[n] c, by: 'mean'|'max' = 'mean') -> float, 'mean'|'max'")]
    fn reduce(x: &[f64], by: Mode) -> (f64, Mode) {
        let value = match by {
            Mode::Mean => x.iter().sum::<f64>() / x.len() as f64,
            Mode::Max => x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        (value, by)
    }

    #[function("greet(name: str, times: int = 1, loud: bool = False) -> str")]
    fn greet(name: &str, times: i64, loud: bool) -> String {
        let text = format!("hello {name}").repeat(times.max(0) as usize);
        if loud { text.to_uppercase() } else { text }
    }

    #[function("total(items: ints, weights: floats?) -> float")]
    fn total(items: &[i64], weights: Option<&[f64]>) -> f64 {
        match weights {
            Some(weights) => items.iter().zip(weights).map(|(i, w)| *i as f64 * w).sum(),
            None => items.iter().sum::<i64>() as f64,
        }
    }

    #[function("given(x: f32[n]?) -> int?")]
    fn given(x: Option<View<f32, 1>>) -> Option<i64> {
        x.map(|x| x.len() as i64)
    }

    #[function("positive(x: f64[n] c) -> f64[?]")]
    fn positive(x: &[f64], z: Open<f64, 1>) -> Result<()> {
        let found = x.iter().copied().filter(|x| *x > 0.0);
        z.alloc([found.clone().count()])?.write_all(found);
        Ok(())
    }

    #[function("sorted(x: f64[n] c) -> values: f64[?], order: i64[?] own")]
    fn sorted(x: &[f64]) -> (Vec<f64>, Vec<i64>) {
        let mut order: Vec<i64> = (0..x.len() as i64).collect();
        order.sort_by(|a, b| x[*a as usize].total_cmp(&x[*b as usize]));
        (order.iter().map(|i| x[*i as usize]).collect(), order)
    }

    #[function("grid(n: int, m: int) -> f64[?, ?] own")]
    fn grid(n: i64, m: i64) -> Result<Owned<f64, 2>> {
        let (n, m) = (n as usize, m as usize);
        Owned::new((0..n * m).map(|i| i as f64).collect(), [n, m])
    }

    #[function("tail(x: f64[n] c) -> f64[?] of(x)")]
    fn tail(x: &[f64]) -> &[f64] {
        &x[x.len().min(1)..]
    }

    #[function("sums(xs: [f64[_, d]]) -> [f64[_]] for xs")]
    fn sums(xs: List<f64, 2>, mut zs: OutList<f64>) {
        for (x, z) in xs.iter().zip(zs.iter_mut()) {
            for (i, z) in z.iter_mut().enumerate() {
                *z = (0..x.shape()[1]).map(|j| x[[i, j]]).sum();
            }
        }
    }

    #[function("clear(xs: [f64[_] rw c])")]
    fn clear(mut xs: ListMut<f64, 1>) {
        xs.iter_mut().filter_map(|x| x.into_slice()).for_each(|x| x.fill(0.0));
    }

    #[function("split(x: f64[n] c, size: int) -> [f64[?]]")]
    fn split(x: &[f64], size: i64, mut parts: OpenList<f64, 1>) -> Result<()> {
        for part in x.chunks(size.max(1) as usize) {
            parts.push([part.len()])?.copy_from_slice(part);
        }
        Ok(())
    }

    #[function("describe(x: any[*_] anywhere) -> str")]
    fn describe(x: AnyTensor) -> String {
        format!("{}{:?} {:?}", x.dtype(), x.shape(), x.device().kind)
    }

    #[function("copy_bytes(x: any[n] c, y: u8[m] rw) -> int")]
    fn copy_bytes(x: AnyTensor, y: AnyTensorMut) -> i64 {
        (x.len() + y.len()) as i64
    }

    #[function("fold(f: callable('(sum: float, i: int) -> float'), n: int) -> float")]
    fn fold(f: Callback<(f64, i64), f64>, n: i64) -> Result<f64> {
        (0..n).try_fold(0.0, |sum, i| f.call((sum, i)))
    }

    #[function("visit(x: f64[n], f: callable('(x: f64[n])')) -> float?")]
    fn visit(x: AnyTensor, f: Callback<(AnyTensor,), ()>) -> Result<Option<f64>> {
        f.call((x,))?;
        Ok(x.cells::<f64, 1>().map(|cells| cells.iter().sum()))
    }

    #[function("values(a: uint, b: complex, c: 1|2|4 = 2) -> uint, complex, int")]
    fn values(a: u64, b: Complex<f64>, c: i64) -> (u64, Complex<f64>, i64) {
        (a, Complex::new(b.im, b.re), c)
    }

    #[function("texts(a: bytes, b: strs, c: dtype = 'f32') -> bytes, strs, str")]
    fn texts(a: &[u8], b: Strs, c: Dtype) -> (Vec<u8>, Vec<String>, String) {
        (a.iter().rev().copied().collect(), b.iter().map(str::to_uppercase).collect(), c.to_string())
    }

    #[function("lists(n: int) -> ints, floats")]
    fn lists(n: i64) -> (Vec<i64>, Vec<f64>) {
        ((0..n).collect(), (0..n).map(|i| i as f64 / 2.0).collect())
    }

    #[function("filled(n: int, d: dtype(T)) -> T[n] where T = f32|f64")]
    fn filled<T: tenon::Element + From<u8>>(_n: i64, _d: Dtype, mut z: Out<T>) {
        z.fill(T::from(7));
    }

    #[function("converted(x: f64[n] c convert) -> float where n >= 1")]
    fn converted(x: &[f64]) -> f64 {
        x.iter().sum()
    }

    #[function("area(side: float) -> float")]
    fn area_of_square(side: f64) -> f64 {
        side * side
    }

    #[function("area(width: float, height: float) -> float")]
    fn area_of_rectangle(width: f64, height: f64) -> f64 {
        width * height
    }

    /// A function for one of the dtypes of its signature.
    #[function("doubles_only(x: T[n] c) -> float where T = f32|f64")]
    fn doubles_only(x: &[f64]) -> f64 {
        x.iter().sum()
    }

    // ------------------------------------------------------------------------------- batches, shape functions, the state

    #[function("hypot(x: f64[**b], y: f64[**b]) -> f64[**b]")]
    fn hypot(call: Call, x: Batch<f64>, y: Batch<f64>, z: BatchOut<f64>) -> Result<()> {
        z.fill(call, 1000, (x, y), |(x, y)| x.hypot(y))
    }

    #[function("weighted(x: f32[**b, n], w: f64[**b]) -> f64[**b, n]")]
    fn weighted(call: Call, x: Batch<f32, 1>, w: Batch<f64>, z: BatchOut<f64, 1>) -> Result<()> {
        z.for_each(call, 100, (x, w), |(x, w), z| {
            assert!(z.iter().all(|z| *z == 0.0) && w[[]] >= 0.0, "the weight is negative");
            z.iter_mut().zip(x.iter()).for_each(|(z, x)| *z = f64::from(*x) * w[[]]);
        })
    }

    #[function("unvisited(x: f64[**b]) -> f64[**b]")]
    fn unvisited(_x: Batch<f64>, _z: BatchOut<f64>) {}

    #[function("repeat(x: f64[n] c, k: int) -> f64[?]", shape = repeat_shape, keep_lock)]
    fn repeat(x: &[f64], k: i64, z: Open<f64, 1>) -> Result<()> {
        let length = if k == 7 { 1 } else { x.len() * k as usize }; // 7: not what the shape function says
        z.alloc([length])?.write_all(x.iter().copied().cycle());
        Ok(())
    }

    fn repeat_shape(arguments: Shapes) -> Result<Vec<Vec<usize>>> {
        let k = arguments.int("k")?;
        if k < 0 {
            return Err(Error::invalid("k is negative"));
        }
        assert_eq!(arguments.shape("x")?, [arguments.dim("n")?]);
        Ok(vec![vec![(arguments.dim("n")? * k) as usize]])
    }

    struct Calls(AtomicI64);

    #[state]
    fn load() -> Result<Calls> {
        Ok(Calls(AtomicI64::new(100)))
    }

    #[function("count() -> int")]
    fn count(calls: State<Calls>) -> i64 {
        calls.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The module has no such state.
    #[function("other_state() -> int")]
    fn other_state(state: State<Box<i64>>) -> i64 {
        **state
    }

    // -------------------------------------------------------------------------------------------------------- failures

    #[function("fail(kind: str)")]
    fn fail(kind: &str) -> Result<(), Box<dyn std::error::Error>> {
        Err(match kind {
            "invalid" => Error::invalid("invalid é").into(),
            "bounds" => Error::bounds("bounds").into(),
            "overflow" => Error::overflow("overflow").into(),
            "dtype" => Error::dtype("dtype").into(),
            "memory" => Error::memory("memory").into(),
            "parse" => "x".parse::<i32>().unwrap_err().into(),
            _ => Error::failed("failed").into(),
        })
    }

    #[function("fail_string()")]
    fn fail_string() -> Result<(), String> {
        Err("a string".to_owned())
    }

    struct Rude;
    impl fmt::Display for Rude {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("Display panicked")
        }
    }
    impl Drop for Rude {
        fn drop(&mut self) {
            panic!("Drop panicked")
        }
    }

    #[function("fail_rudely(how: int)")]
    fn fail_rudely(how: i64) -> Result<(), Rude> {
        match how {
            0 => panic!("index {how} is wrong"),
            1 => std::panic::panic_any(Rude),
            _ => Err(Rude),
        }
    }

    #[function("unfilled(n: int) -> f64[n]")]
    fn unfilled(_n: i64, mut z: Out<f64>) {
        z.push(1.0);
    }

    // --------------------------------------------------------------------------------------------------------- classes

    /// Rows that it keeps.
    #[class]
    struct Table {
        rows: Kept<f32, 2>,
        sums: Shared<f32>,
        changes: i64,
    }

    impl Table {
        /// Keeps the rows.
        #[function("Table(rows: f32[n, d] keep)")]
        fn new(rows: Kept<f32, 2>) -> Table {
            let cells = rows.cells();
            let [n, d] = cells.shape();
            let sums = (0..n).map(|i| (0..d).map(|j| cells.at([i, j])).sum()).collect::<Vec<_>>();
            Table { rows, sums: Shared::from(sums), changes: 0 }
        }

        #[function("Table.total(self) -> float")]
        fn total(&self) -> f64 {
            self.rows.cells().iter().map(f64::from).sum()
        }

        #[function("Table.rows(self) -> f32[?, ?] of(self)")]
        fn rows(&self) -> &Kept<f32, 2> {
            &self.rows
        }

        #[function("Table.sums(self) -> f32[?] of(self)")]
        fn sums(&self) -> &Shared<f32> {
            &self.sums
        }

        #[function("Table.replace(self, rows: f32[n, d] keep)")]
        fn replace(&mut self, rows: Kept<f32, 2>) {
            *self = Table::new(rows);
        }

        /// The finalizer of the rows before must not run between the writes.
        #[function("Table.exchange(self, rows: f32[n, d] keep, x: f32[k] c rw)")]
        fn exchange(&mut self, rows: Kept<f32, 2>, x: &mut [f32]) {
            x[0] = 1.0;
            *self = Table::new(rows);
            x[0] += 1.0;
        }

        #[function("Table.merge(self, other: handle('Table')) -> int")]
        fn merge(&mut self, other: &Table) -> i64 {
            self.changes += 1 + other.changes;
            self.changes
        }

        #[function("Table.add(self, x: f32[n] c rw) -> float")]
        fn add(&mut self, x: &mut [f32]) -> f64 {
            self.changes += 1;
            x.iter_mut().for_each(|x| *x += 1.0);
            self.total()
        }

        #[function("Table.during(self, f: callable('()'))")]
        fn during(&mut self, f: Callback<(), ()>) -> Result<()> {
            let changes = &mut self.changes;
            *changes += 1;
            f.call(())?;
            *changes += 1;
            Ok(())
        }

        #[function("Table.fill(self) -> f32[2, 2]")]
        fn fill(&self, z: &mut [f32]) {
            z.fill(self.total() as f32);
        }

        #[function("Table.__len__(self) -> int")]
        fn len(&self) -> usize {
            self.rows.shape()[0]
        }

        #[function("Table.width: int")]
        fn width(&self) -> usize {
            self.rows.shape()[1]
        }

        #[function("Table.largest(x: f32[n] c) -> float")]
        fn largest(x: &[f32]) -> f64 {
            x.iter().copied().fold(f32::NEG_INFINITY, f32::max).into()
        }

        #[function("Table.__repr__(self) -> str")]
        fn repr(&self) -> String {
            format!("Table of {} rows", self.len())
        }

        #[function("Table.__getitem__(self, i: int) -> f32[?]")]
        fn item(&self, i: i64) -> Result<Vec<f32>> {
            let [n, d] = self.rows.shape();
            let row = usize::try_from(i).ok().filter(|i| *i < n);
            let row = row.ok_or_else(|| Error::bounds(format!("there are {n} rows, and none is {i}")))?;
            Ok((0..d).filter_map(|j| self.rows.get([row, j])).collect())
        }
    }

    /// Calls on one object run at the same time.
    #[class(concurrent)]
    struct Constant(f64);

    impl Constant {
        #[function("Constant(value: float)")]
        fn new(value: f64) -> Result<Constant> {
            if value.is_nan() {
                return Err(Error::invalid("the value is not a number"));
            }
            Ok(Constant(value))
        }

        #[function("Constant.value(self) -> float", release_lock)]
        fn value(&self) -> f64 {
            self.0
        }
    }

    #[class]
    struct Noisy(Cell<i64>);

    impl Noisy {
        #[function("Noisy()")]
        fn new() -> Noisy {
            Noisy(Cell::new(0))
        }

        #[function("Noisy.count(self) -> int")]
        fn count(&self) -> i64 {
            self.0.set(self.0.get() + 1);
            self.0.get()
        }
    }

    impl Drop for Noisy {
        fn drop(&mut self) {
            panic!("Drop of an object panicked")
        }
    }

    #[function("constant(value: float) -> handle('Constant')")]
    fn constant(value: f64) -> Constant {
        Constant(value)
    }
}
