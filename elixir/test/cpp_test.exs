defmodule Tenon.CppTest do
  # A library that was written with tenon/function.hpp. Not async: it counts what is alive.
  use ExUnit.Case

  alias Tenon.Test.Kernels, as: Build

  import Tenon.Case, only: [eventually: 1, reason: 1]

  @source Build.path("cpp_functions") <> ".cpp"
  File.write!(@source, """
  #include <tenon/stl.hpp>
  #include <vector>

  static int64_t alive;

  struct Series {
      tenon::kept<float, 1> values;

      explicit Series(tenon::kept<float, 1> share) : values(std::move(share)) { alive++; }
      ~Series() { alive--; }
  };
  TENON_CPP_TYPE(Series)

  static void saxpy(double a, tenon::in<float, 1> x, tenon::in<float, 1> y, tenon::out<float, 1> z)
  {
      for (int64_t i = 0; i < x.size(); i++)
          z(i) = static_cast<float>(a) * x(i) + y(i);
  }

  TENON_CPP_MODULE(cpp_functions, "Functions in C++.",
      TENON_CPP("saxpy(a: float, x: f32[n] c, y: f32[n] c) -> f32[n]", saxpy, "Returns a*x + y."),
      TENON_CPP("double(x: T[n]) -> T[n] where T = f32|f64|i64",
                [](auto x, auto z) { for (int64_t i = 0; i < x.size(); i++) z(i) = x(i) + x(i); }, "Returns 2*x."),
      TENON_CPP("range(n: int) -> i64[?] own",
                [](int64_t n) {
                    std::vector<int64_t> all;
                    for (int64_t i = 0; i < n; i++)
                        all.push_back(i);
                    return all;
                }, "Returns 0 to n - 1."),
      TENON_CPP("alive() -> int", [] { return alive; }, "Counts."),
      TENON_CPP_CLASS(Series, "Numbers."),
      TENON_CPP("Series(values: f32[n] c keep)", [](tenon::kept<float, 1> v) { return new Series(std::move(v)); }, ""),
      TENON_CPP("Series.__len__(self) -> int", [](Series &s) { return s.values.size(); }, ""),
      TENON_CPP("Series.__getitem__(self, i: int) -> float",
                [](Series &s, int64_t i) {
                    if (i < 0 || i >= s.values.size())
                        throw std::out_of_range("there is no such number");
                    return s.values(i);
                }, ""))
  """)

  defmodule Functions do
    use Tenon.Library, path: Build.build!("cpp_functions", Build.path("cpp_functions") <> ".cpp")
  end

  alias Functions.Series

  defp tensor(list, type \\ {:f, 32}), do: Tenon.from_list!(list, type: type)

  test "tensors and dtype variables" do
    assert Tenon.to_list!(Functions.saxpy!(2.0, tensor([1, 2]), tensor([10, 20]))) == [12.0, 24.0]

    for type <- [{:f, 32}, {:f, 64}, {:s, 64}] do
      assert Tenon.to_list!(Functions.double!(tensor([1, 2], type))) == [2, 4]
    end

    assert reason(Functions.double(tensor([1], {:u, 8}))) == {:mismatch, :x}
  end

  test "memory of the library" do
    assert Tenon.to_list!(Functions.range!(3)) == [0, 1, 2]
  end

  test "objects and exceptions" do
    series = Series.new!(tensor([5, 6]))
    assert Functions.alive!() == 1
    assert Series.size!(series) == 2
    assert Series.at!(series, 1) == 6.0
    assert {:error, %{reason: {:failed, :ebounds}, message: message}} = Series.at(series, 2)
    assert message =~ "there is no such number"
    Series.close(series)
    assert eventually(fn -> Functions.alive!() == 0 end)
  end
end
