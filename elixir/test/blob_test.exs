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
          {:c32, :complex_half, 4},
          {:c64, :complex_float, 8},
          {:c128, :complex_double, 16},
          {:bool, :bool, 1},
          {:f8_e4m3fn, :float8_e4m3fn, 1}
        ] do
      blob = Blob.to_blob(Tenon.zeros!({2, 3}, type: type))
      assert {blob.dtype, blob.element_size} == {name, size}
      assert Blob.from_blob(blob).type == Tenon.zeros!({1}, type: type).type
    end
  end

  test "from_blob knows every name that ExTorch has for a type" do
    # ExTorch.DType, and what ExTorch returns as tensor.dtype.
    for {names, type} <- [
          {[:uint8, :byte], {:u, 8}},
          {[:int8, :char], {:s, 8}},
          {[:int16, :short], {:s, 16}},
          {[:int32, :int], {:s, 32}},
          {[:int64, :long], {:s, 64}},
          {[:float16, :half], {:f, 16}},
          {[:bfloat16], {:bf, 16}},
          {[:float32, :float], {:f, 32}},
          {[:float64, :double], {:f, 64}},
          {[:bool], {:bool, 8}},
          {[:complex32, :chalf, :complex_half], {:c, 32}},
          {[:complex64, :cfloat, :complex_float], {:c, 64}},
          {[:complex128, :cdouble, :complex_double], {:c, 128}}
        ],
        name <- names do
      assert Blob.from_blob(%{ptr: 4096, shape: {1}, dtype: name}).type == type
    end

    for {name, stored} <- [qint8: ":int8", quint8: ":uint8", qint32: ":int32", quint4x2: ":uint8", quint2x4: ":uint8"] do
      error = catch_error(Blob.from_blob(%{ptr: 4096, shape: {1}, dtype: name}))
      assert error.reason == {:unsupported_type, name}
      assert error.message =~ "'dtype': :#{name} is a quantized type" and error.message =~ "its integers as #{stored}"
    end
  end

  test "from_blob knows every device that ExTorch has" do
    for {given, device, shown} <- [
          {nil, :cpu, :cpu},
          {"cpu", :cpu, :cpu},
          {"cpu:1", {:cpu, 1}, {:cpu, 1}},
          {{:cpu, 0}, :cpu, :cpu},
          {:cuda, {:cuda, 0}, {:cuda, 0}},
          {"cuda", {:cuda, 0}, {:cuda, 0}},
          {"cuda:3", {:cuda, 3}, {:cuda, 3}},
          {{:cuda, 3}, {:cuda, 3}, {:cuda, 3}},
          {:hip, {:rocm, 0}, {:hip, 0}},
          {{:hip, 2}, {:rocm, 2}, {:hip, 2}},
          {"hip:2", {:rocm, 2}, {:hip, 2}},
          {:rocm, {:rocm, 0}, {:hip, 0}},
          {:vulkan, {:vulkan, 0}, {:vulkan, 0}}
        ] do
      tensor = Blob.from_blob(%{ptr: 4096, shape: {1}, dtype: :float, device: given})
      assert tensor.device == device
      assert Blob.to_blob(tensor).device == shown
      assert Blob.from_blob(Blob.to_blob(tensor)).device == device
    end

    for given <- [:xla, {:xla, 0}, "xla:0", :fpga, :msnpu] do
      error = catch_error(Blob.from_blob(%{ptr: 4096, shape: {1}, dtype: :float, device: given}))
      assert error.reason == {:badarg, :device} and error.message =~ "copy the tensor to the CPU"
    end

    for given <-
          ["", "cuda:", "cuda:-1", "cuda:0:0", "cuda\0", String.duplicate("c", 99), <<1::3>>, :"cuda:0", {:cuda}] ++
            [{"cuda", 0}, {:cuda, 2 ** 40}, 0, "hip:x", String.duplicate("hip:1", 10)] do
      error = catch_error(Blob.from_blob(%{ptr: 4096, shape: {1}, dtype: :float, device: given}))
      assert {given, error.reason} == {given, {:badarg, :device}}
      assert error.message =~ ~s(expected a device such as :cpu, :cuda, {:cuda, 0} or "cuda:0")
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

  test "a large owner is searched, and not copied" do
    {deleted, _, _} = Tenon.OtherNif.counts()
    memory = Tenon.zeros!({4})
    blob = %{Blob.to_blob(memory) | owner: nil}
    source = fn -> Tenon.from_resource!(Tenon.OtherNif.source(4), Tenon.OtherNif.type()) end
    # 80 MB. The reference is the last of its elements.
    large = fn -> Enum.to_list(1..5_000_000) ++ [%{deep: {source.()}}] end

    {tensor, grown} =
      in_process(fn ->
        owner = large.()
        before = :erlang.memory(:total)
        tensor = Blob.from_blob(blob, owner: owner).tensor
        grown = :erlang.memory(:total) - before
        assert length(owner) == 5_000_001
        {tensor, grown}
      end)

    assert grown < 40_000_000
    settled()
    assert elem(Tenon.OtherNif.counts(), 0) == deleted
    assert Tenon.to_list!(tensor) == Tenon.to_list!(memory)
    Tenon.release(tensor)
    assert eventually(fn -> elem(Tenon.OtherNif.counts(), 0) == deleted + 1 end)
  end

  test "an owner that would take too long to search" do
    blob = %{Blob.to_blob(Tenon.zeros!({4})) | owner: nil}
    # A few words here, and many for a search, which visits what occurs twice twice.
    shared = Enum.reduce(1..60, [], fn _, inner -> {inner, inner} end)
    assert {:owner_too_large, words} = raised(fn -> Blob.from_blob(blob, owner: shared) end)
    assert words > 20_000_000
    captured = Enum.reduce(1..60, 0, fn _, inner -> {fn -> inner end, fn -> inner end} end)
    assert {:owner_too_large, _} = raised(fn -> Blob.from_blob(blob, owner: captured) end)
    nested = fn depth -> Enum.reduce(1..depth, make_ref(), fn _, inner -> fn -> inner end end) end
    assert %BlobView{} = Blob.from_blob(blob, owner: nested.(100))
    assert {:badarg, :owner} = raised(fn -> Blob.from_blob(blob, owner: nested.(101)) end)
    deep = Enum.reduce(1..300_000, [], fn _, inner -> [inner] end)
    assert %BlobView{} = Blob.from_blob(blob, owner: deep)
    assert %BlobView{} = Blob.from_blob(blob, owner: :erlang.make_tuple(2_000_000, 1))
  end

  test "functions keep alive what they have captured" do
    blob = %{Blob.to_blob(Tenon.zeros!({4})) | owner: nil}
    source = fn -> Tenon.from_resource!(Tenon.OtherNif.source(4), Tenon.OtherNif.type()) end

    for wrap <- [
          fn owned -> fn -> owned end end,
          fn owned -> fn x -> fn -> [x | owned] end end end,
          fn owned -> %{1 => [&is_atom/1, fn -> owned end | :improper]} end,
          fn owned -> {fn -> 1 end, fn -> %{fn -> owned end => 1} end} end,
          fn owned -> Stream.map([1], fn _ -> owned end) end
        ] do
      {deleted, _, _} = Tenon.OtherNif.counts()
      tensor = in_process(fn -> Blob.from_blob(blob, owner: wrap.(source.())).tensor end)
      settled()
      assert elem(Tenon.OtherNif.counts(), 0) == deleted
      Tenon.release(tensor)
      assert eventually(fn -> elem(Tenon.OtherNif.counts(), 0) == deleted + 1 end)
    end

    # They decide who may write, like other owners.
    binary = large(400)
    inside = %{Blob.to_blob(Tenon.from_binary!(binary, :f32)) | owner: nil}
    refute Tenon.writable?(Blob.from_blob(inside, owner: fn -> binary end).tensor)
    frozen = Tenon.from_binary!(binary, :f32)
    refute Tenon.writable?(Blob.from_blob(inside, owner: fn -> [frozen] end).tensor)
    assert %BlobView{tensor: %Tensor{}} = Blob.from_blob(blob, owner: &is_atom/1)
    released = Tenon.zeros!({1})
    Tenon.release(released)
    assert raised(fn -> Blob.from_blob(blob, owner: fn -> released end) end) == :released
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
    {:docs_v1, _, _, _, _, _, functions} = Code.fetch_docs(Tenon.Blob)
    {_, _, _, %{"en" => doc}, _} = List.keyfind(functions, {:function, :from_blob, 2}, 0)
    [first | _] = String.split(doc, "\n\n")
    assert first =~ "20,000,000 words"
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
