alias Tenon.Test.Kernels, as: Build

Build.build!("members", Build.source("members.c"))

defmodule Tenon.ClassMembersTest.Members do
  use Tenon.Library, path: Build.path("members")
end

defmodule Tenon.ClassMembersTest do
  use Tenon.Case
  alias Tenon.ClassMembersTest.Members.{Bag, Cursor, Row}

  test "static methods, properties and constants" do
    assert {:ok, %Bag{} = bag} = Bag.make(3)
    assert {Bag.count(bag), Bag.count!(bag), Bag.max_items()} == {{:ok, 3}, 3, 8}
    assert Bag.at!(Bag.make!(3), 2) == 2
    assert reason(Bag.make("3")) == {:badarg, :n}
    assert reason(Bag.count(7)) == {:badarg, :self}
    Bag.close(bag)
    assert reason(Bag.count(bag)) == :released
    # A constant has no variant with a bang.
    refute function_exported?(Bag, :max_items!, 0)
  end

  test "special methods" do
    bag = Bag.new!([3, 4, 5])
    assert {Bag.size!(bag), Bag.hash!(bag), Bag.call!(bag), Bag.call(bag, 100)} == {3, 3, 12, {:ok, 112}}
    assert Bag.put_at(bag, 0, 30) == :ok
    assert Bag.at!(bag, 0) == 30
    assert reason(Bag.put_at(bag, 3, 1)) == {:failed, :ebounds}
    assert {Bag.contains?(bag, 30), Bag.contains?(bag, 3)} == {true, false}

    assert {Bag.equal?(bag, Bag.new!([30, 4, 5])), Bag.equal?(bag, Bag.new!([1])), Bag.equal?(bag, bag)} ==
             {true, false, true}

    assert_raise Tenon.Error, ~r/argument 'x': expected int, got a binary/, fn -> Bag.contains?(bag, "30") end
    assert_raise Tenon.Error, ~r/argument 'other'/, fn -> Bag.equal?(bag, Row.new!([1])) end
    assert_raise Tenon.Error, ~r/argument 'other'/, fn -> Bag.equal?(bag, nil) end
    refute function_exported?(Bag, :"contains?!", 2)
  end

  test "the state of an object" do
    bag = Bag.new!([1, 2])
    assert {:ok, state} = Bag.dump(bag)
    assert is_binary(state)
    assert Bag.equal?(Bag.load!(state), bag)
    assert reason(Bag.load("short")) == {:failed, :einval}
    assert reason(Bag.load(:state)) == {:badarg, :state}
  end

  test "objects are enumerable" do
    bag = Bag.new!([3, 4, 5])
    assert Enum.to_list(bag) == [3, 4, 5]
    assert Enum.map(bag, &(&1 * 2)) == [6, 8, 10]
    assert {Enum.count(bag), Enum.member?(bag, 4), Enum.member?(bag, 9), 5 in bag} == {3, true, false, true}
    assert Enum.take(bag, 2) == [3, 4]
    assert Enum.zip(bag, [:a, :b, :c]) == [{3, :a}, {4, :b}, {5, :c}]
    assert Enum.slice(bag, 1, 2) == [4, 5]
    assert Enum.to_list(Bag.new!([])) == []
    assert for(x <- bag, x > 3, do: x) == [4, 5]
    row = Row.new!([7, 8])
    assert {Enum.to_list(row), Enum.count(row), Enum.member?(row, 8)} == {[7, 8], 2, true}
    cursor = Bag.iter!(bag)
    assert Cursor.next!(cursor) == 3
    assert Enum.to_list(cursor) == [4, 5]
    assert reason(Cursor.next(cursor)) == {:failed, :ebounds}
    Bag.close(bag)
    assert_raise Tenon.Error, ~r/this Bag is closed/, fn -> Enum.to_list(bag) end
    assert_raise Tenon.Error, ~r/this Bag is closed/, fn -> Enum.count(bag) end
  end

  test "signatures from a file say the same" do
    {:ok, {_, described}} = Tenon.Nif.library_describe(Build.path("members"))
    {:ok, _, parsed} = described |> Enum.map_join("\n", &elem(&1, 0)) |> Tenon.Signature.parse_file()
    key = &{&1.name, &1.role, &1.class, &1.params, Enum.map(&1.results, fn r -> %{r | name: nil} end)}

    assert described |> Enum.map(fn {text, _, read} -> key.(Tenon.Signature.described(text, read)) end) |> Enum.sort() ==
             parsed |> Enum.map(key) |> Enum.sort()
  end
end
