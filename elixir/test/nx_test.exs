defmodule Tenon.NxTest do
  use Tenon.Case
  alias Tenon.Test.Backend

  defp nx(binary, type, shape), do: apply(Nx, :reshape, [apply(Nx, :from_binary, [binary, type]), shape])

  test "to Nx and back it is the same memory" do
    tensor = Tenon.zeros!({10, 10})
    there = Tenon.Nx.to_nx!(tensor)
    assert {apply(Nx, :type, [there]), apply(Nx, :shape, [there])} == {{:f, 32}, {10, 10}}
    refute Tenon.writable?(tensor)
    back = Tenon.Nx.from_nx!(there)
    assert {back.type, back.shape} == {{:f, 32}, {10, 10}}
    assert address(back) == address(tensor)
  end

  test "from Nx" do
    binary = for number <- 1..100, into: <<>>, do: <<number * 1.0::float-32-native>>
    tensor = Tenon.Nx.from_nx!(nx(binary, {:f, 32}, {4, 25}))
    assert tensor.shape == {4, 25}
    assert Tenon.to_binary!(tensor) == binary
    refute Tenon.writable?(tensor)
  end

  test "what Nx does not have, or what needs a copy" do
    assert apply(Nx, :type, [Tenon.Nx.to_nx!(Tenon.from_list!([true]))]) == {:u, 8}
    assert reason(Tenon.Nx.to_nx(Tenon.zeros!({1}, type: :f8_e3m4))) == {:unsupported_type, {:f8_e3m4, 8}}
    assert reason(Tenon.Nx.to_nx(Tenon.zeros!({1}, type: :c32))) == {:unsupported_type, {:c, 32}}
    transposed = Tenon.transpose!(Tenon.from_list!([[1, 2], [3, 4]]))
    assert reason(Tenon.Nx.to_nx(transposed)) == :not_contiguous
    assert Tenon.to_list!(Tenon.Nx.from_nx!(Tenon.Nx.to_nx!(transposed, copy: :allow))) == [[1, 3], [2, 4]]
    assert reason(Tenon.Nx.to_nx(:x)) == {:badarg, :tensor}
    assert_raise Tenon.Error, ~r/^to_nx\(\): argument 'tensor'/, fn -> Tenon.Nx.to_nx!(:x) end
    assert reason(Tenon.Nx.from_nx(:x)) == {:badarg, :tensor}
    assert_raise ArgumentError, fn -> Tenon.Nx.from_nx(:x, devise: :cpu) end
  end

  test "the fields of the struct are not what counts" do
    tensor = Tenon.zeros!({2, 2})

    for changed <- [%{tensor | type: {:s, 32}}, %{tensor | shape: {4}}] do
      there = Tenon.Nx.to_nx!(changed)
      assert {apply(Nx, :type, [there]), apply(Nx, :shape, [there])} == {{:f, 32}, {2, 2}}
    end
  end

  test "to_pointer" do
    tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])
    assert {pointer, ^tensor} = Tenon.Nx.to_pointer!(tensor)
    assert {pointer.kind, pointer.address, pointer.data_size} == {:local, address(tensor), 16}
    assert reason(Tenon.Nx.to_pointer(Tenon.transpose!(tensor))) == :not_contiguous
  end

  test "errors name the function that was called, and what its caller can do" do
    memory = Tenon.from_list!([1.0, 2.0])
    at = address(memory)
    transposed = Tenon.transpose!(Tenon.zeros!({2, 3}))
    foreign = Tenon.Blob.from_blob(%{ptr: at, shape: {2}, dtype: :f32})
    elsewhere = Tenon.Blob.from_blob(%{ptr: at, shape: {2}, dtype: :f32, device: {:cuda, 0}})

    short = Backend.tensor(Tenon.zeros!({3}, type: :u8), {:f, 32}, {2})

    # A pointer, and what else is in the tensor.
    shared = fn address, inside, device ->
      pointer = struct!(Nx.Pointer, kind: :local, address: address, data_size: 8)
      data = %Tenon.Test.Pointer{pointer: pointer, inside: inside}
      Tenon.Nx.from_nx(%{Backend.tensor(memory, {:f, 32}, {2}) | data: data}, device: device)
    end

    gone = Tenon.from_list!([1.0])
    Tenon.release(gone)

    for {result, reason, function, argument, said} <- [
          {Tenon.Nx.to_nx(memory, copy: :maybe), {:badarg, :copy}, :to_nx, :copy, "expected :never, :allow or :always"},
          {Tenon.Nx.to_nx(transposed), :not_contiguous, :to_nx, :tensor, "pass copy: :allow"},
          {Tenon.Nx.to_nx(foreign), :would_copy, :to_nx, :tensor, "pass copy: :allow"},
          {Tenon.Nx.to_nx(elsewhere), {:device_mismatch, :cpu, {:cuda, 0}}, :to_nx, :tensor, "the CPU cannot read"},
          {Tenon.Nx.to_nx(1), {:badarg, :tensor}, :to_nx, :tensor, "expected a tensor"},
          {Tenon.Nx.to_pointer(transposed), :not_contiguous, :to_pointer, :tensor, "to_binary with copy: :allow"},
          {Tenon.Nx.to_pointer(1), {:badarg, :tensor}, :to_pointer, :tensor, "expected a tensor"},
          {Tenon.Nx.from_nx(short), {:size_mismatch, 8, 3}, :from_nx, :tensor, "need 8 bytes, got 3"},
          {shared.(at + 1, nil, :cpu), {:misaligned, 4, 1}, :from_nx, :tensor,
           "without the option :device its elements"},
          {shared.(0, nil, :cpu), {:badarg, :tensor}, :from_nx, :tensor,
           "without the option :device its elements are copied"},
          {shared.(at + 4, memory, :cpu), {:badarg, :tensor}, :from_nx, :tensor,
           "without the option :device its elements"},
          {shared.(at, gone, :cpu), :released, :from_nx, :tensor,
           "was released; without the option :device its elements"},
          {shared.(at, nil, :moon), {:badarg, :device}, :from_nx, :device, "expected a device such as :cpu"},
          {shared.(at, memory, {:cuda, 0}), {:device_mismatch, :cpu, {:cuda, 0}}, :from_nx, :device, "another device"}
        ] do
      assert {:error, error} = result
      assert {error.reason, error.function, error.argument} == {reason, function, argument}
      assert error.message =~ "#{function}(): argument '#{argument}'"
      assert error.message =~ said
    end

    assert {:error, error} = shared.(at, Enum.reduce(1..60, [], &{&1, &2, &2}), :cpu)
    assert {{:owner_too_large, _}, :from_nx, :tensor} = {error.reason, error.function, error.argument}
    assert error.message =~ "from_nx(): argument 'tensor': its struct is too large to be searched"
  end

  describe "what Nx or a backend refuses" do
    defp refused(result, argument \\ :tensor) do
      assert reason(result) == {:badarg, argument}
      elem(result, 1).message
    end

    test "is an error of ours" do
      memory = Tenon.from_list!([1.0, 2.0])
      template = struct!(Nx.Tensor, data: struct!(Nx.TemplateBackend), type: {:f, 32}, shape: {2}, names: [nil])
      assert refused(Tenon.Nx.from_nx(template)) =~ "TemplateBackend"
      assert refused(Tenon.Nx.from_nx(template, device: :cpu)) =~ "TemplateBackend"
      assert_raise Tenon.Error, fn -> Tenon.Nx.from_nx!(template) end

      gone =
        Backend.tensor(memory, {:f, 32}, {2}, pointer: fn -> raise ArgumentError, "it was deallocated\nand more" end)

      assert refused(Tenon.Nx.from_nx(gone, device: :cpu)) ==
               "from_nx(): argument 'tensor': Nx refuses it: it was deallocated"

      assert refused(Tenon.Nx.from_nx(%{gone | data: %Tenon.Test.NoBackend{}})) =~ "Nx refuses it"
      # Nx's own backend has no pointers.
      assert refused(Tenon.Nx.from_nx(Tenon.Nx.to_nx!(memory), device: :cpu)) =~ "Nx refuses it"
    end

    test "if the tensor's struct is not whole" do
      memory = Tenon.from_list!([1.0, 2.0])
      tensor = Backend.tensor(memory, {:f, 32}, {2})
      huge = Bitwise.bsl(1, 100)

      for change <-
            [
              [shape: :x],
              [shape: [2]],
              [shape: {:a}],
              [shape: {-2}],
              [shape: {huge}],
              [shape: {Bitwise.bsl(1, 40), Bitwise.bsl(1, 40)}],
              [shape: List.to_tuple(List.duplicate(1, 65))],
              [type: :x],
              [type: nil],
              [type: {:f, huge}],
              [type: {:u, :x}],
              [type: {"u", 8}],
              [type: {:u, 0}],
              [type: {:u, -8}],
              [vectorized_axes: 7],
              [vectorized_axes: [a: :b]],
              [data: nil],
              [data: 1]
            ],
          options <- [[], [device: :cpu]] do
        assert refused(Tenon.Nx.from_nx(Map.merge(tensor, Map.new(change)), options)) =~
                 "from_nx(): argument 'tensor': "

        [key] = Keyword.keys(change)
        # Without this one there are none.
        unless key == :vectorized_axes, do: refused(Tenon.Nx.from_nx(Map.delete(tensor, key), options))
      end

      for options <- [[], [device: :cpu]] do
        refused(Tenon.Nx.from_nx(%{__struct__: Nx.Tensor}, options))
        {:error, error} = Tenon.Nx.from_nx(%{tensor | type: {:x, 8}}, options)
        assert {error.function, error.argument} == {:from_nx, :tensor}

        for names <- [7, [:a, :b], [1], [:a | :b], %{}, nil] do
          assert Tenon.Nx.from_nx!(%{tensor | names: names}, options).names == nil
        end
      end
    end

    test "by a throw or an exit too" do
      defmodule Leaves do
        defstruct [:how]
        def init(options), do: options
        def from_binary(_out, _binary, how: how), do: how.()
        def to_binary(%{data: %{how: how}}, _limit), do: how.()
        def to_pointer(%{data: %{how: how}}, _options), do: how.()
      end

      for {how, said} <- [
            {fn -> throw(:ball) end, "throw :ball"},
            {fn -> exit(:gone) end, "exit :gone"},
            {fn -> throw(Bitwise.bsl(1, 1_000_000)) end, "throw an integer of more than 64 bits"},
            {fn -> exit({:timeout, {GenServer, :call, [self(), :x, 5000]}}) end, "exit {:timeout, {…}}"}
          ] do
        tensor = %{Backend.tensor(nil, {:f, 32}, {1}) | data: struct!(Leaves, how: how)}
        assert refused(Tenon.Nx.from_nx(tensor)) =~ said
        assert refused(Tenon.Nx.from_nx(tensor, device: :cpu)) =~ said
        assert_raise Tenon.Error, fn -> Tenon.Nx.from_nx!(tensor) end
        assert refused(Tenon.Nx.to_nx(Tenon.zeros!({1}), backend: {Leaves, how: how}), :backend) =~ said
      end
    end

    test "pointers without a local address and a size" do
      memory = Tenon.from_list!([1.0, 2.0])

      for change <- [%{kind: :ipc, address: nil}, %{address: nil}, %{data_size: nil}, %{data_size: -8}, %{kind: :ipc}] do
        pointer = struct!(Nx.Pointer, Map.merge(%{kind: :local, address: address(memory), data_size: 8}, change))
        tensor = Backend.tensor(memory, {:f, 32}, {2}, pointer: fn -> pointer end)
        assert refused(Tenon.Nx.from_nx(tensor, device: :cpu)) =~ "without a local address"
      end
    end

    test "no elements, and no backend" do
      assert refused(Tenon.Nx.to_nx(Tenon.zeros!({0, 3}))) =~ "no empty tensors"

      for backend <- [Tenon.NoSuchBackend, 1, nil],
          do: refused(Tenon.Nx.to_nx(Tenon.zeros!({2}), backend: backend), :backend)
    end
  end

  test "to_nx takes Nx's own backend whatever the default is, and freezes nothing that it copies" do
    tensor = Tenon.zeros!({2, 20})

    in_process(fn ->
      if function_exported?(Nx, :default_backend, 1), do: apply(Nx, :default_backend, [Backend])
      assert Tenon.Nx.to_nx!(tensor, copy: :always).data.__struct__ == Nx.BinaryBackend
      assert Tenon.writable?(tensor)
      there = Tenon.Nx.to_nx!(tensor, backend: Backend)
      assert {there.data.__struct__, there.shape} == {Backend, {2, 20}}
      assert Tenon.writable?(tensor)
      assert reason(Tenon.Nx.to_nx(tensor, backend: Backend, copy: :never)) == :would_copy
      assert Tenon.Nx.to_nx!(tensor, backend: Backend, copy: :allow).data.__struct__ == Backend
      assert Tenon.writable?(tensor)
      assert Tenon.Nx.to_nx!(tensor).data.__struct__ == Nx.BinaryBackend
      refute Tenon.writable?(tensor)
    end)
  end

  test "names of axes are kept; views have none" do
    memory = Tenon.from_list!([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    there = Backend.tensor(memory, {:f, 32}, {2, 3}, names: [:x, nil])

    for options <- [[], [device: :cpu]] do
      tensor = Tenon.Nx.from_nx!(there, options)
      assert tensor.names == [:x, nil]
      assert Tenon.Nx.to_nx!(tensor, copy: :always).names == [:x, nil]

      for view <- [Tenon.transpose!(tensor), Tenon.reshape!(tensor, {2, 3}), Tenon.slice!(tensor, [0, 0], [1, 3])] do
        assert Tenon.Nx.to_nx!(view, copy: :always).names == [nil, nil]
      end

      # Anyone may have filled the field.
      for names <- [[:a], [1, 2], :x, [:a, :b, :c], [:a | :b]] do
        assert Tenon.Nx.to_nx!(%{tensor | names: names}, copy: :always).names == [nil, nil]
      end

      assert Tenon.Nx.to_nx!(%{Tenon.reshape!(tensor, {6}) | names: [:x, :y], shape: {2, 3}}, copy: :always).shape ==
               {6}
    end

    assert Tenon.Nx.from_nx!(Tenon.Nx.to_nx!(memory)).names == nil
    vectorized = Backend.tensor(memory, {:f, 32}, {3}, names: [:y], vectorized_axes: [v: 2])
    assert Tenon.Nx.from_nx!(vectorized).names == [:v, :y]
  end

  test "types of less than a byte are refused with the reason" do
    for type <- [{:u, 2}, {:u, 4}, {:s, 2}, {:s, 4}], options <- [[], [device: :cpu]] do
      result = Tenon.Nx.from_nx(Backend.tensor(Tenon.zeros!({1}, type: :u8), type, {2}), options)
      assert reason(result) == {:unsupported_type, type}
      assert elem(result, 1).message =~ "Nx.as_type(tensor, :#{elem(type, 0)}8)"
    end
  end

  describe "another backend's memory, through its pointer" do
    test "is shared" do
      memory = Tenon.from_list!(Enum.to_list(1..6), type: :f32)
      tensor = Backend.tensor(memory, {:f, 32}, {2, 3})
      shared = Tenon.Nx.from_nx!(tensor, device: :cpu)
      assert Tenon.to_list!(shared) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
      assert address(shared) == address(memory)
      assert address(Tenon.Nx.from_nx!(tensor)) != address(memory)
      assert reason(Tenon.Nx.from_nx(tensor, device: :moon)) == {:badarg, :device}
      assert reason(Tenon.Nx.from_nx(tensor, device: {:cuda, 0})) == {:device_mismatch, :cpu, {:cuda, 0}}
      there = Tenon.Blob.from_blob(%{ptr: 4096, shape: {6}, dtype: :f32, device: {:cuda, 0}})
      there = Backend.tensor(there, {:f, 32}, {2, 3})
      assert Tenon.Nx.from_nx!(there, device: {:cuda, 0}).device == {:cuda, 0}
    end

    test "must be as large as the shape and type need" do
      # As Torchx keeps u16.
      wide = Backend.tensor(Tenon.from_list!([1, 2], type: :s32), {:u, 16}, {2})
      assert reason(Tenon.Nx.from_nx(wide, device: :cpu)) == {:size_mismatch, 4, 8}

      assert_raise Tenon.Error, ~r/need 4 bytes, but the backend's memory has 8/, fn ->
        Tenon.Nx.from_nx!(wide, device: :cpu)
      end

      narrow = Backend.tensor(Tenon.from_list!([1, 2], type: :f32), {:f, 32}, {2, 4})
      assert reason(Tenon.Nx.from_nx(narrow, device: :cpu)) == {:size_mismatch, 32, 8}
    end

    test "of a vectorized tensor has all axes" do
      memory = Tenon.from_list!([[1, 2], [3, 4]], type: :f32)
      tensor = Backend.tensor(memory, {:f, 32}, {2}, vectorized_axes: [x: 2])

      for options <- [[], [device: :cpu]] do
        assert Tenon.to_list!(Tenon.Nx.from_nx!(tensor, options)) == [[1.0, 2.0], [3.0, 4.0]]
      end
    end

    test "stays alive with the tensor alone" do
      shared =
        in_process(fn ->
          memory = Tenon.from_list!(Enum.to_list(1..100), type: :f32)
          Tenon.Nx.from_nx!(Backend.tensor(memory, {:f, 32}, {100}), device: :cpu)
        end)

      settled()
      assert Enum.sum(Tenon.to_list!(shared)) == 5050.0
    end
  end
end
