# A library that is written with the crate in rust/. It is left out if there is no cargo that runs.
crate = Tenon.Test.Kernels.repository("rust/libtenon")
folder = Tenon.Test.Kernels.path("rust_functions") <> ".crate"
library = Path.join(folder, "target/release/librust_functions.so")

source = ~S"""
#![forbid(unsafe_code)]
/// Functions in Rust.
#[tenon::module]
mod rust_functions {
    use std::sync::atomic::{AtomicI64, Ordering};
    use tenon::{Batch, BatchOut, Call, Error, Kept, Open, Out, Result, Shapes, Shared, State};

    static ALIVE: AtomicI64 = AtomicI64::new(0);

    #[function("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]")]
    fn saxpy(a: f64, x: &[f32], y: &[f32], mut z: Out<f32>) {
        z.write_all(x.iter().zip(y).map(|(x, y)| a as f32 * x + y));
    }

    #[function("double(x: T[n] c) -> T[n] where T = f32|f64|i64")]
    fn double<T: tenon::Element + std::ops::Add<Output = T>>(x: &[T], mut z: Out<T>) {
        z.write_all(x.iter().map(|x| *x + *x));
    }

    #[function("greet(name: str) -> str")]
    fn greet(name: &str) -> String {
        format!("hello {name}")
    }

    #[function("range(n: int) -> i64[?] own")]
    fn range(n: i64) -> Vec<i64> {
        (0..n).collect()
    }

    #[function("repeat(x: f64[n] c, k: int) -> f64[?]", shape = repeat_shape)]
    fn repeat(x: &[f64], k: i64, z: Open<f64, 1>) -> Result<()> {
        z.alloc([x.len() * k as usize])?.write_all(x.iter().copied().cycle());
        Ok(())
    }

    fn repeat_shape(arguments: Shapes) -> Result<Vec<Vec<usize>>> {
        Ok(vec![vec![(arguments.dim("n")? * arguments.int("k")?) as usize]])
    }

    #[function("weighted(x: f32[**b, n], w: f64[**b]) -> f64[**b, n]")]
    fn weighted(call: Call, x: Batch<f32, 1>, w: Batch<f64>, z: BatchOut<f64, 1>) -> Result<()> {
        z.for_each(call, 100, (x, w), |(x, w), z| {
            z.iter_mut().zip(x.iter()).for_each(|(z, x)| *z = f64::from(*x) * w[[]]);
        })
    }

    #[state]
    fn load() -> Result<AtomicI64> {
        Ok(AtomicI64::new(100))
    }

    #[function("count() -> int")]
    fn count(calls: State<AtomicI64>) -> i64 {
        calls.fetch_add(1, Ordering::Relaxed)
    }

    #[function("panic(i: int)")]
    fn panic(i: i64) {
        std::panic::set_hook(Box::new(|_| {}));
        panic!("index {i} is wrong");
    }

    #[function("alive() -> int")]
    fn alive() -> i64 {
        ALIVE.load(Ordering::SeqCst)
    }

    #[class]
    struct Series {
        values: Kept<f32>,
        sums: Shared<f32>,
    }

    impl Series {
        #[function("Series(values: f32[n] c keep)")]
        fn new(values: Kept<f32>) -> Series {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            let mut sum = 0.0;
            let sums = values.cells().iter().map(|x| { sum += x; sum }).collect::<Vec<_>>();
            Series { values, sums: Shared::from(sums) }
        }

        #[function("Series.__len__(self) -> int")]
        fn len(&self) -> usize {
            self.values.len()
        }

        #[function("Series.sums(self) -> f32[?] of(self)")]
        fn sums(&self) -> &Shared<f32> {
            &self.sums
        }

        #[function("Series.__getitem__(self, i: int) -> float")]
        fn at(&self, i: i64) -> Result<f64> {
            let value = usize::try_from(i).ok().and_then(|i| self.values.get([i]));
            value.map(f64::from).ok_or_else(|| Error::bounds("there is no such number"))
        }
    }

    impl Drop for Series {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
"""

# rustc crashes with the runtime of a sanitizer, which the tests of the NIF may preload.
cargo = &System.cmd("cargo", &1, stderr_to_stdout: true, env: [{"LD_PRELOAD", nil}])

cargo? = fn ->
  System.find_executable("cargo") && match?({_, 0}, cargo.(["--version"]))
end

if crate && cargo?.() do
  File.mkdir_p!(Path.join(folder, "src"))
  File.write!(Path.join(folder, "src/lib.rs"), source)

  File.write!(Path.join(folder, "Cargo.toml"), """
  [package]
  name = "rust_functions"
  version = "0.1.0"
  edition = "2024"
  [lib]
  crate-type = ["cdylib"]
  [dependencies]
  libtenon = { path = "#{crate}" }
  [workspace]
  """)

  target = ["--target-dir", Path.join(folder, "target"), "--manifest-path", Path.join(folder, "Cargo.toml")]

  {output, status} = cargo.(["build", "--quiet", "--release", "--offline" | target])

  if status != 0, do: raise(output)

  defmodule Tenon.RustTest do
    # Not async: it counts what is alive.
    use ExUnit.Case

    import Tenon.Case, only: [eventually: 1, reason: 1]

    defmodule Functions do
      use Tenon.Library, path: library
    end

    alias Functions.Series

    defp tensor(list, type \\ {:f, 32}), do: Tenon.from_list!(list, type: type)

    test "tensors, dtype variables and strings" do
      assert Tenon.to_list!(Functions.saxpy!(2.0, tensor([1, 2]), tensor([10, 20]))) == [12.0, 24.0]
      for type <- [{:f, 32}, {:s, 64}], do: assert(Tenon.to_list!(Functions.double!(tensor([1, 2], type))) == [2, 4])
      assert reason(Functions.double(tensor([1], {:u, 8}))) == {:mismatch, :x}
      assert Functions.greet!("é") == "hello é"
    end

    test "memory of the library, and results of unknown size" do
      assert Tenon.to_list!(Functions.range!(3)) == [0, 1, 2]
      assert Tenon.to_list!(Functions.repeat!(tensor([1, 2], {:f, 64}), 2)) == [1.0, 2.0, 1.0, 2.0]
    end

    test "batches and the state" do
      rows = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]], type: {:f, 32})
      assert Tenon.to_list!(Functions.weighted!(rows, tensor([1, 10], {:f, 64}))) == [[1.0, 2.0], [30.0, 40.0]]
      first = Functions.count!()
      assert Functions.count!() == first + 1
    end

    test "objects, errors and panics" do
      series = Series.new!(tensor([5, 6]))
      assert Functions.alive!() == 1
      assert Series.size!(series) == 2
      assert Tenon.to_list!(Series.sums!(series)) == [5.0, 11.0]
      assert {:error, %{reason: {:failed, :ebounds}, message: message}} = Series.at(series, 2)
      assert message =~ "there is no such number"
      assert {:error, %{message: message}} = Functions.panic(7)
      assert message =~ "the function panicked: index 7 is wrong"
      Series.close(series)
      assert eventually(fn -> Functions.alive!() == 0 end)
    end
  end
else
  IO.puts("rust_test.exs is left out: there is no cargo that runs")
end
