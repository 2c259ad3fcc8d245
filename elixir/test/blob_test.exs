defmodule Tenon.BlobTest do
  use Tenon.Case
  alias Tenon.{Blob, BlobView, Tensor}

  # The seed's own tests, with our names.

  test "to_blob tells the address and what describes it" do
    tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])
    blob = Blob.to_blob(tensor)
    assert is_integer(blob.ptr) and blob.ptr > 0

    assert blob == %Blob{
             ptr: blob.ptr,
             shape: {2, 2},
             strides: [2, 1],
             dtype: :float,
             device: :cpu,
             element_size: 4,
             owner: tensor
           }

    assert Blob.to_blob(Tenon.zeros!({3, 4, 5})).strides == [20, 5, 1]
  end

  test "types have torch's names" do
    for {type, name, size} <- [
          {:f64, :double, 8},
          {:f16, :half, 2},
          {:bf16, :bfloat16, 2},
          {:u8, :byte, 1},
          {:s8, :char, 1},
          {:s16, :short, 2},
          {:s32, :int, 4},
          {:s64, :long, 8},
          {:u16, :uint16, 2},
          {:c64, :complex64, 8},
          {:bool, :bool, 1},
          {:f8_e4m3fn, :float8_e4m3fn, 1}
        ] do
      blob = Blob.to_blob(Tenon.zeros!({2, 3}, type: type))
      assert {blob.dtype, blob.element_size} == {name, size}
      assert Blob.from_blob(blob).type == Tenon.zeros!({1}, type: type).type
    end
  end

  test "from_blob shares the memory" do
    original = Tenon.from_list!([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    blob = Blob.to_blob(original)
    view = Blob.from_blob(blob, owner: original)
    assert %BlobView{owner: ^original} = view
    assert view.tensor.shape == {2, 3}
    assert Tenon.to_list!(view.tensor) == Tenon.to_list!(original)
    assert address(view.tensor) == blob.ptr
    assert Blob.to_blob(view).ptr == blob.ptr
  end

  test "from_blob gives a view for every owner that is given, also for those that own nothing" do
    blob = Blob.to_blob(Tenon.from_list!([1.0]))

    for owner <- [nil, false, [], {}, 1], own <- [blob.owner, nil], more <- [[], [immutable: true], [data_size: 4]] do
      assert %BlobView{tensor: %Tensor{}, owner: ^owner} = Blob.from_blob(%{blob | owner: own}, [owner: owner] ++ more)
    end

    assert %Tensor{} = Blob.from_blob(blob, immutable: true)
    assert %Tensor{} = Blob.from_blob(%{blob | owner: nil}, data_size: 4)
  end

  test "from_blob gives a bare tensor without an owner" do
    original = Tenon.from_list!([1.0, 2.0, 3.0])
    tensor = Blob.from_blob(Blob.to_blob(original))
    assert %Tensor{} = tensor
    assert Tenon.to_list!(tensor) == [1.0, 2.0, 3.0]
  end

  test "from_blob takes maps, tuples, lists and all names" do
    original = Tenon.reshape!(Tenon.from_list!(Enum.to_list(1..16), type: :f32), {4, 4})
    map = %{ptr: address(original), shape: {4, 4}, dtype: :float, strides: [4, 1]}

    for change <- [
          %{},
          %{shape: [4, 4]},
          %{strides: {4, 1}},
          %{strides: nil},
          %{dtype: :float32},
          %{dtype: {:f, 32}},
          %{device: :cpu}
        ] do
      view = Blob.from_blob(Map.merge(map, change), owner: original)
      assert Tenon.to_list!(view.tensor) == Tenon.to_list!(original)
    end

    transposed = Blob.from_blob(%{map | strides: [1, 4]}, owner: original)
    assert Tenon.to_list!(transposed.tensor) == Tenon.to_list!(Tenon.transpose!(original))
  end

  # What the seed leaves open.

  test "the tensor alone keeps the owner alive, and so does a blob's own owner" do
    before = Tenon.stats().bytes

    for make <- [
          fn original -> Blob.from_blob(Blob.to_blob(original), owner: [original, self()]).tensor end,
          fn original -> Blob.from_blob(Blob.to_blob(original), owner: original).tensor end,
          fn original -> Blob.from_blob(Blob.to_blob(original), owner: :another).tensor end,
          fn original -> Blob.from_blob(Blob.to_blob(original)) end
        ] do
      tensor = in_process(fn -> make.(Tenon.from_list!(Enum.to_list(1..1000))) end)
      settled()
      assert Tenon.stats().bytes == before + 8000
      assert Tenon.to_list!(tensor) == Enum.to_list(1..1000)
      assert Tenon.release(tensor) == :ok
      assert eventually(fn -> Tenon.stats().bytes == before end)
    end
  end

  test "an owner that is the tensor shares its state: nobody writes what is frozen" do
    original = Tenon.zeros!({100})
    view = Blob.from_blob(Blob.to_blob(original), owner: original).tensor
    assert Tenon.writable?(view)
    binary = Tenon.to_binary!(original)
    refute Tenon.writable?(view)
    assert Tenon.to_binary!(view) == binary
    nested = Blob.from_blob(Blob.to_blob(original), owner: Blob.to_blob(view)).tensor
    refute Tenon.writable?(nested)
  end

  test "whatever owner is named: a tensor's memory has its state" do
    binary = large(400)
    frozen = Tenon.from_binary!(binary, :f32)
    free = Tenon.zeros!({100})
    plain = Map.delete(Map.from_struct(Blob.to_blob(free)), :owner)

    for owner <- [{:mine, frozen}, [frozen.ref], make_ref(), :me] do
      refute Tenon.writable?(Blob.from_blob(Blob.to_blob(frozen), owner: owner).tensor)
    end

    aliases = for owner <- [free, free.ref, %{deep: [{free}]}], do: Blob.from_blob(plain, owner: owner).tensor
    {:ok, held} = Tenon.OtherNif.hold(hd(aliases).ref, 1)
    for tensor <- [free | aliases], do: assert(reason(Tenon.Nif.to_list(tensor)) == :busy)
    Tenon.OtherNif.drop(held)
    Tenon.to_binary!(free)
    refute Enum.any?(aliases, &Tenon.writable?/1)
    Tenon.release(free)
    assert Tenon.to_list!(hd(aliases)) == List.duplicate(0.0, 100)
    assert raised(fn -> Blob.from_blob(plain, owner: {:mine, free}) end) == :released
  end

  test "memory of the CPU's has its state under every name of its device" do
    frozen = Tenon.from_binary!(large(400), :f32)
    free = Tenon.zeros!({100})

    for device <- [{:cpu, 1}, :cuda_host, :cuda_managed, :rocm_host] do
      refute Tenon.writable?(Blob.from_blob(%{Blob.to_blob(frozen) | device: device}))
      blob = %{Blob.to_blob(free) | device: device}
      assert Tenon.writable?(Blob.from_blob(blob))
      assert raised(fn -> Blob.from_blob(%{blob | shape: {101}}) end) == {:badarg, :shape}
    end

    assert raised(fn -> Blob.from_blob(%{Blob.to_blob(free) | device: :cuda}) end) ==
             {:device_mismatch, :cpu, {:cuda, 0}}
  end

  test "a tensor on foreign memory does not replace the other owners" do
    before = Tenon.stats().bytes
    numbers = Enum.to_list(1..1000)

    for make <- [
          fn bare, original -> Blob.from_blob(Blob.to_blob(bare), owner: original).tensor end,
          fn bare, original -> Blob.from_blob(%{Blob.to_blob(bare) | owner: [original, bare]}) end
        ] do
      tensor =
        in_process(fn ->
          original = Tenon.from_list!(numbers)
          tensor = make.(bare(original), original)
          Tenon.release(original)
          tensor
        end)

      settled()
      assert Tenon.stats().bytes == before + 8000
      assert Tenon.to_list!(tensor) == numbers
      Tenon.release(tensor)
      assert eventually(fn -> Tenon.stats().bytes == before end)
    end

    # Also one whose memory is elsewhere.
    free = Tenon.zeros!({4})
    source = fn -> Tenon.from_resource!(Tenon.OtherNif.source(4), Tenon.OtherNif.type()) end
    {deleted, _, _} = Tenon.OtherNif.counts()

    tensors =
      for owner <- [nil, {1}] do
        blob = Blob.to_blob(free)
        in_process(fn -> Blob.from_blob(%{blob | owner: {bare(free), owner}}, owner: source.()).tensor end)
      end

    settled()
    assert elem(Tenon.OtherNif.counts(), 0) == deleted
    Enum.each(tensors, &Tenon.release/1)
    assert eventually(fn -> elem(Tenon.OtherNif.counts(), 0) == deleted + 2 end)
  end

  test "a view of a foreign tensor shares its state, whatever else it holds" do
    free = Tenon.zeros!({100})
    one = bare(free)
    two = Blob.from_blob(Blob.to_blob(one), owner: make_ref()).tensor
    three = Blob.from_blob(Blob.to_blob(two), owner: {self(), two}).tensor
    {:ok, held} = Tenon.OtherNif.hold(three.ref, 1)
    for tensor <- [one, two, three], do: assert(reason(Tenon.Nif.to_list(tensor)) == :busy)
    Tenon.OtherNif.drop(held)
    Tenon.release(one)
    Tenon.release(two)

    assert %BlobView{tensor: four} =
             Blob.from_blob(%{Blob.to_blob(three) | shape: {50}}, owner: self(), immutable: true)

    refute Tenon.writable?(three)
    assert Tenon.to_binary!(three) == :binary.copy(<<0>>, 400)
    refute Tenon.writable?(four)
  end

  test "the order of owners does not matter" do
    binary = large(400)
    frozen = Tenon.from_binary!(binary, :f32)
    part = Tenon.from_binary!(binary_part(binary, 0, 200), :f32)
    released = Tenon.zeros!({2})
    Tenon.release(released)
    blob = Blob.to_blob(frozen)

    for others <- [[bare(frozen)], [part], [released], [bare(frozen), part, released], [fn -> binary end]] do
      for owners <- [[frozen | others], others ++ [frozen]], owner <- [owners, List.to_tuple(owners)] do
        refute Tenon.writable?(Blob.from_blob(%{blob | owner: owner}))
        assert Tenon.to_binary!(Blob.from_blob(%{blob | owner: nil}, owner: owner).tensor) == binary
      end
    end

    trusted = Blob.from_blob(%{blob | owner: nil}, immutable: true)
    for owner <- [{bare(frozen), trusted}, {trusted, bare(frozen)}], do: refute(writable?(%{blob | owner: owner}))
    for owner <- [{part, 1}, [released]], do: assert_raise(Tenon.Error, fn -> writable?(%{blob | owner: owner}) end)
  end

  test "memory in a binary that is an owner never changes" do
    binary = large(400)
    blob = %{Blob.to_blob(Tenon.from_binary!(binary, :f32)) | owner: nil}

    for owner <- [binary, {:mine, [binary]}, {bare(Tenon.from_binary!(binary, :f32)), binary}] do
      view = Blob.from_blob(blob, owner: owner).tensor
      refute Tenon.writable?(view)
      assert Tenon.to_binary!(view) == binary
    end

    part = binary_part(binary, 8, 200)
    assert raised(fn -> Blob.from_blob(blob, owner: part) end) == {:badarg, :shape}
    refute writable?(%{blob | owner: {part, binary}})
    assert writable?(%{blob | owner: large(400)})
    # Whoever wrote by a foreign tensor's name may do so no longer.
    foreign = bare(Tenon.from_binary!(binary, :f32))
    assert Tenon.writable?(foreign)
    Blob.from_blob(Blob.to_blob(foreign), owner: binary)
    refute Tenon.writable?(foreign)
  end

  test "a long chain of owners is given back" do
    first = bare(Tenon.zeros!({4}))
    blob = Blob.to_blob(first)
    last = Enum.reduce(1..100_000, first, fn i, tensor -> Blob.from_blob(%{blob | owner: {tensor, i}}) end)
    assert Tenon.writable?(last)
  end

  test "memory that begins inside its owner ends there too" do
    tensor = Tenon.zeros!({100})
    blob = Blob.to_blob(tensor)

    for change <- [%{shape: {101}}, %{ptr: blob.ptr - 4}, %{ptr: blob.ptr + 4}, %{strides: [2]}] do
      assert raised(fn -> Blob.from_blob(Map.merge(blob, change), owner: tensor) end) == {:badarg, :shape}
    end

    # Memory elsewhere is the owner's business.
    other = Tenon.zeros!({100})
    assert %BlobView{} = Blob.from_blob(%{Blob.to_blob(other) | owner: nil}, owner: tensor)
  end

  test "foreign memory is not taken for immutable" do
    original = Tenon.zeros!({100})
    blob = %{Blob.to_blob(original) | owner: nil}

    for options <- [[], [owner: self()]] do
      tensor = with %BlobView{tensor: tensor} <- Blob.from_blob(blob, options), do: tensor
      assert reason(Tenon.to_binary(tensor)) == :would_copy
      assert byte_size(Tenon.to_binary!(tensor, copy: :allow)) == 400
      assert Tenon.writable?(tensor)
    end

    %{tensor: trusted} = Blob.from_blob(blob, owner: self(), immutable: true)
    refute Tenon.writable?(trusted)
    binary = Tenon.to_binary!(trusted)
    assert address(Tenon.from_binary!(binary, :f32, copy: :never)) == blob.ptr
  end

  test "config unowned: :raise" do
    blob = %{Blob.to_blob(Tenon.zeros!({1})) | owner: nil}
    Application.put_env(:tenon, :unowned, :raise)
    on_exit(fn -> Application.delete_env(:tenon, :unowned) end)
    assert raised(fn -> Blob.from_blob(blob) end) == {:badarg, :owner}
    assert raised(fn -> Blob.from_blob(%{blob | owner: false}) end) == {:badarg, :owner}
    assert raised(fn -> Blob.from_blob(blob, owner: blob) end) == {:badarg, :owner}

    for nothing <- [[], {}, %BlobView{tensor: false}] do
      assert raised(fn -> Blob.from_blob(blob, owner: nothing) end) == {:badarg, :owner}
    end

    Application.delete_env(:tenon, :unowned)
    assert %Tensor{} = Blob.from_blob(blob)
  end

  test "what is wrong is checked" do
    tensor = Tenon.zeros!({4, 4})
    blob = Blob.to_blob(tensor)

    for {expected, change, options} <- [
          {{:unsupported_type, :float33}, %{dtype: :float33, element_size: nil}, []},
          {{:unsupported_type, nil}, %{dtype: nil}, []},
          {{:badarg, :device}, %{device: :moon}, []},
          {{:badarg, :device}, %{device: {:cuda, -1}}, []},
          {{:badarg, :ptr}, %{ptr: -1}, []},
          {{:badarg, :ptr}, %{ptr: :x}, []},
          {{:badarg, :shape}, %{ptr: 0}, []},
          {{:badarg, :shape}, %{shape: {-1, 4}}, []},
          {{:badarg, :shape}, %{shape: :x}, []},
          {{:badarg, :strides}, %{strides: [1]}, []},
          {{:overflow, :shape}, %{shape: {9_223_372_036_854_775_807, 16}}, []},
          {{:overflow, :shape}, %{strides: [9_223_372_036_854_775_807, 1]}, []},
          {{:misaligned, 4, 1}, %{ptr: blob.ptr + 1}, []},
          {{:badarg, :element_size}, %{element_size: 8}, []},
          {{:badarg, :data_size}, %{}, [data_size: 63]},
          {{:badarg, :data_size}, %{strides: [-4, 1]}, [data_size: 64]},
          {{:badarg, :data_size}, %{}, [data_size: -1]},
          {{:badarg, :data_size}, %{}, [data_size: :x]},
          {{:badarg, :immutable}, %{}, [immutable: 1]}
        ] do
      assert {raised(fn -> Blob.from_blob(Map.merge(blob, change), options) end), change} == {expected, change}
    end

    assert %Tensor{} = Blob.from_blob(blob, data_size: 64)
    assert raised(fn -> Blob.from_blob(%{shape: {1}, dtype: :float}) end) == {:badarg, :ptr}
    assert raised(fn -> Blob.from_blob(:x) end) == {:badarg, :blob}
    assert raised(fn -> Blob.to_blob(:x) end) == {:badarg, :tensor}
    assert_raise ArgumentError, fn -> Blob.from_blob(blob, ownr: tensor) end
    Tenon.release(tensor)
    assert raised(fn -> Blob.from_blob(blob) end) == :released
  end

  test "on a device, memory is described and not touched" do
    blob = %{ptr: 4096, shape: {2, 2}, dtype: :float, device: {:cuda, 1}}
    tensor = Blob.from_blob(blob)
    assert tensor.device == {:cuda, 1}
    assert Blob.to_blob(Tenon.slice!(tensor, [1, 0], [1, 2])).ptr == 4096 + 8
    assert reason(Tenon.to_binary(tensor)) == {:device_mismatch, :cpu, {:cuda, 1}}
    assert reason(Tenon.to_binary(tensor, copy: :always)) == {:device_mismatch, :cpu, {:cuda, 1}}
    assert reason(Tenon.Nif.to_list(tensor)) == {:device_mismatch, :cpu, {:cuda, 1}}
  end

  test "owners of any kind are held, and given back" do
    tensor = Tenon.zeros!({4})
    blob = %{Blob.to_blob(tensor) | owner: nil}

    owners = [
      self(),
      make_ref(),
      :atom,
      "short",
      large(),
      <<1::3>>,
      1.5,
      2 ** 300,
      {tensor, [tensor | tensor]},
      %{tensor => [%{}], nil => {}},
      Map.new(1..100, &{&1, tensor}),
      Enum.to_list(1..9000)
    ]

    for owner <- owners, do: assert(%BlobView{owner: ^owner} = Blob.from_blob(blob, owner: owner))
  end

  test "an owner that would cost too much to copy" do
    blob = %{Blob.to_blob(Tenon.zeros!({4})) | owner: nil}
    assert %BlobView{} = Blob.from_blob(blob, owner: Enum.to_list(1..490_000))
    assert {:owner_too_large, words} = raised(fn -> Blob.from_blob(blob, owner: Enum.to_list(1..1_000_000)) end)
    assert words > 1_000_000
    # Small as it lies here; a copy shares nothing.
    shared = Enum.reduce(1..60, [], fn _, inner -> {inner, inner} end)
    assert {:owner_too_large, _} = raised(fn -> Blob.from_blob(blob, owner: shared) end)
    deep = Enum.reduce(1..300_000, [], fn _, inner -> [inner] end)
    assert %BlobView{} = Blob.from_blob(blob, owner: deep)
    assert {:owner_too_large, _} = raised(fn -> Blob.from_blob(blob, owner: :erlang.make_tuple(2_000_000, 1)) end)
    assert {:badarg, :owner} = raised(fn -> Blob.from_blob(blob, owner: [fn -> blob end]) end)
  end

  # A tensor on the same memory, which knows nothing about whose it is.
  defp bare(tensor), do: Blob.from_blob(%{Blob.to_blob(tensor) | owner: nil})

  defp writable?(blob), do: Tenon.writable?(Blob.from_blob(blob))

  defp raised(function) do
    function.()
    :nothing
  rescue
    error in Tenon.Error -> error.reason
  end

  test "the documentation says at once which owners are refused" do
    blob = %{ptr: 4096, shape: {1}, dtype: :u8}

    for owner <- [fn -> 1 end, &is_atom/1, {:a, [fn -> 1 end]}, %{a: &is_atom/1}] do
      assert_raise Tenon.Error, ~r/a term without functions/, fn -> Tenon.Blob.from_blob(blob, owner: owner) end
    end

    assert %Tenon.Error{reason: {:owner_too_large, _}} =
             catch_error(Tenon.Blob.from_blob(blob, owner: Enum.to_list(1..500_001)))

    {:docs_v1, _, _, _, _, _, functions} = Code.fetch_docs(Tenon.Blob)
    {_, _, _, %{"en" => doc}, _} = List.keyfind(functions, {:function, :from_blob, 2}, 0)
    [first | _] = String.split(doc, "\n\n")
    assert first =~ "contains no function" and first =~ "1,000,000 words"
  end

  describe "inspect of memory without an owner" do
    test "shows the address and reads nothing" do
      # Nothing is there: reading would end the VM.
      blob = %{ptr: 4096, shape: {2, 2}, dtype: :f32}

      unowned = [Tenon.Blob.from_blob(blob) | for(owner <- [nil, false, [], {}], do: bare(blob, owner: owner))]

      for tensor <- unowned do
        assert inspect(tensor) == "#Tenon.Tensor<\n  f32[2][2]\n  at 0x1000, without an owner\n>"
        part = Tenon.slice!(tensor, [1, 0], [1, 2])
        assert inspect(part) == "#Tenon.Tensor<\n  f32[1][2]\n  at 0x1008, without an owner\n>"
        assert inspect(Tenon.transpose!(tensor)) =~ "without an owner"
        assert inspect(bare(blob, owner: tensor)) =~ "without an owner"
        assert inspect(bare(blob, owner: [tensor])) =~ "without an owner"
        assert inspect({:error, tensor}) =~ "without an owner"
      end
    end

    test "is not for memory with one" do
      tensor = Tenon.from_list!([1, 2])
      blob = %{Tenon.Blob.to_blob(tensor) | owner: nil}
      assert inspect(Tenon.Blob.from_blob(blob, owner: tensor).tensor) =~ "[1, 2]"
      assert inspect(Tenon.Blob.from_blob(blob, owner: make_ref()).tensor) =~ "[1, 2]"
    end
  end

  defp bare(blob, options) do
    with %Tenon.BlobView{tensor: tensor} <- Tenon.Blob.from_blob(blob, options), do: tensor
  end
end
