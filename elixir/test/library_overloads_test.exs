alias Tenon.Test.Kernels, as: Build

Build.build_text!("overloads", """
#include <stdlib.h>
static tenon_status one(tenon_call *call) { return tenon_return_int(call, 0, 1); }
static tenon_status two(tenon_call *call) { return tenon_return_int(call, 0, 2); }
static tenon_status three(tenon_call *call) { return tenon_return_int(call, 0, 3); }
static tenon_status four(tenon_call *call) { return tenon_return_int(call, 0, 4); }
static tenon_status text(tenon_call *call) { return tenon_return_str(call, 0, "text", 4); }
static tenon_status fails(tenon_call *call) { return tenon_fail(call, TENON_EINVAL, "no"); }
static tenon_status make(tenon_call *call) { return tenon_return_handle(call, 0, malloc(1), free); }
TENON_MODULE(overloads, NULL,
    TENON_FUNCTION("f(x: f32[n] c) -> int", one, "Of floats."),
    TENON_FUNCTION("g(x: int) -> int", fails, NULL),
    TENON_FUNCTION("f(x: f64[n] c) -> int", two, "Of doubles."),
    TENON_FUNCTION("f(x: f32[n, m], *, axis: int) -> int where axis < 2", three, NULL),
    TENON_FUNCTION("f(x: f32[n] rw, y: int, z: int = 5) -> int", four, NULL),
    TENON_FUNCTION("f(x: str) -> str", text, NULL),
    TENON_FUNCTION("g(x: float) -> int", one, NULL),
    TENON_FUNCTION("h(x: f64[n] c convert) -> int", one, NULL),
    TENON_FUNCTION("h(x: f32[n] c convert) -> int", two, NULL),
    TENON_FUNCTION("k(x: f64[n] c convert) -> int", one, NULL),
    TENON_CLASS("A", NULL),
    TENON_FUNCTION("A()", make, NULL),
    TENON_FUNCTION("A(x: int)", make, NULL),
    TENON_FUNCTION("A.f(self, x: int) -> int", one, NULL),
    TENON_FUNCTION("A.f(self, x: str) -> int", two, NULL),
    TENON_FUNCTION("A.make(x: int) -> int", one, NULL),
    TENON_FUNCTION("A.make(x: str) -> int", two, NULL))
""")

defmodule Tenon.LibraryOverloadsTest.Kernels do
  use Tenon.Library, path: Build.path("overloads")
end

defmodule Tenon.LibraryOverloadsTest do
  use Tenon.Case
  alias Tenon.LibraryOverloadsTest.Kernels

  defp message({:error, %Tenon.Error{message: message}}), do: message

  test "the first entry that fits is called" do
    x = Tenon.from_list!([1, 2], type: :f32)
    assert Kernels.f(x) == {:ok, 1}
    assert Kernels.f!(Tenon.from_list!([1, 2], type: :f64)) == 2
    assert Kernels.f(Tenon.zeros!({2, 3}), axis: 1) == {:ok, 3}
    assert {Kernels.f(x, 1), Kernels.f(x, 1, 2)} == {{:ok, 4}, {:ok, 4}}
    assert Kernels.f("x") == {:ok, "text"}
    assert Kernels.f!({<<0::64>>, :f64, {1}}) == 2
  end

  test "conversion comes after all entries were tried without" do
    assert {Kernels.h!(Tenon.zeros!({2})), Kernels.h!(Tenon.zeros!({2}, type: :f64))} == {2, 1}
    assert Kernels.h!(Tenon.zeros!({2}, type: :u8)) == 1
    assert Kernels.k!(Tenon.zeros!({2}, type: :u8)) == 1
    assert {:error, error} = Kernels.h(Tenon.zeros!({2}, type: {:c, 64}))
    assert [_, "  h(x: f64[n] c convert)" <> _, "  h(x: f32[n] c convert)" <> _] = String.split(error.message, "\n")
  end

  test "if none fits, the message lists each with its reason" do
    assert {:error, error} = Kernels.f(7)
    assert {error.reason, error.function, error.argument} == {{:mismatch, nil}, :f, nil}

    assert error.message ==
             """
             f(): no signature fits the arguments
               f(x: f32[n] c) -> int: argument 'x': expected f32[n] c, got an integer
               f(x: f64[n] c) -> int: argument 'x': expected f64[n] c, got an integer
               f(x: str) -> str: argument 'x': expected str, got an integer\
             """

    assert message(Kernels.f(Tenon.zeros!({2, 3}), axis: 2)) =~
             "where axis < 2: argument 'axis': expected axis < 2, got axis = 2"

    assert message(Kernels.f(Tenon.zeros!({2}), "y")) =~ "expected a keyword list"
    assert_raise Tenon.Error, ~r/no signature fits/, fn -> Kernels.f!(7) end
  end

  test "a failure, and an argument that is gone, end the call" do
    assert reason(Kernels.g(1)) == {:failed, :einval}
    assert Kernels.g(1.5) == {:ok, 1}
    x = Tenon.zeros!({2})
    Tenon.release(x)
    assert reason(Kernels.f(x)) == :released
  end

  test "constructors, methods and static methods" do
    alias Kernels.A
    assert {:ok, %A{} = a} = A.new()
    assert %A{} = A.new!(1)
    assert {A.f!(a, 1), A.f!(a, "x"), A.make!(1), A.make!("x")} == {1, 2, 1, 2}
    assert reason(A.f(a, nil)) == {:mismatch, nil}
    A.close(a)
    assert reason(A.f(a, "x")) == :released
  end

  test "heads are those of all entries" do
    assert Kernels.__info__(:functions) |> Keyword.take([:f, :f!]) == [f: 1, f: 2, f: 3, f!: 1, f!: 2, f!: 3]
  end
end
