defmodule Tenon.GarbageTest do
  use Tenon.Case

  # Each function is called with arguments that are right, but for one that is anything: it may answer or raise, and the
  # VM goes on. What cannot be checked by anyone, the address of a blob, is only described here and never read.

  @raised [ArgumentError, Tenon.Error]

  # A pid, a reference and a port of another node, which this node has never seen.
  @node <<119, 3, "a@b">>
  @remote [
    <<131, 88, @node::binary, 1::32, 2::32, 3::32>>,
    <<131, 90, 3::16, @node::binary, 1::32, 1::32, 2::32, 3::32>>,
    <<131, 89, @node::binary, 1::32, 2::32>>
  ]

  defp garbage(tensor) do
    closed = Tenon.zeros!({2, 2})
    Tenon.release(closed)
    remote = Enum.map(@remote, &:erlang.binary_to_term/1)

    [
      closed,
      closed.ref,
      %Tenon.BlobView{tensor: closed},
      %{tensor | ref: Enum.at(remote, 1)},
      [tensor | closed],
      fn -> [closed | remote] end,
      nil,
      true,
      :x,
      :nan,
      0,
      -1,
      1,
      64,
      65,
      2 ** 31,
      2 ** 63 - 1,
      -(2 ** 63),
      2 ** 64,
      -(2 ** 200),
      1.5,
      -0.0,
      "",
      "text",
      <<0::7>>,
      :binary.copy(<<255>>, 300),
      [],
      [[]],
      [1 | 2],
      ['a' | :b],
      List.duplicate(1, 65),
      Enum.to_list(1..5000),
      [nil],
      [copy: :never],
      [shape: {2}, shape: 1],
      [type: 1],
      {},
      {1},
      {0, 0},
      {-1, 2 ** 62},
      {2 ** 62, 2 ** 62, 0},
      {1, 2, 3, 4, 5, 6, 7},
      List.to_tuple(List.duplicate(1, 65)),
      {:f, 32},
      {:f, 2 ** 70},
      {:cuda, 0},
      %{},
      %{ref: 1},
      %{ref: make_ref()},
      %{tensor | ref: nil},
      Map.delete(tensor, :ref),
      tensor,
      tensor.ref,
      self(),
      make_ref(),
      fn -> 1 end,
      hd(Port.list()),
      %Tenon.BlobView{tensor: 1},
      %Tenon.Blob{},
      Enum.reduce(1..70, [], fn _, inner -> [inner] end)
      | remote
    ]
  end

  # name => arguments that are right
  defp calls(Tenon.Shared) do
    shared = Tenon.Shared.zeros!({2})

    arguments = %{
      zeros: [{2, 2}, [type: :f32]],
      share: [Tenon.zeros!({2})],
      freeze: [shared],
      name: [shared],
      attach: [Tenon.Shared.name!(shared), [immutable: false]]
    }

    for {name, arity} <- Tenon.Shared.__info__(:functions), do: {name, taken(arguments, name, arity)}
  end

  defp calls(Tenon.Nx) do
    tensor = Tenon.zeros!({2})
    arguments = %{to_nx: [tensor, [copy: :allow]], from_nx: [tensor, [device: :cpu]], to_pointer: [tensor]}

    for {name, arity} <- Tenon.Nx.__info__(:functions),
        plain(name) in Map.keys(arguments),
        do: {name, taken(arguments, name, arity)}
  end

  defp calls(module) when module in [Tenon, Tenon.Blob] do
    tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])

    arguments = %{
      from_binary: [<<1, 2, 3, 4>>, :u8, [shape: {2, 2}]],
      to_binary: [tensor, [copy: :allow]],
      zeros: [{2, 2}, [type: :f32]],
      from_list: [[1, 2], [type: :f32]],
      to_list: [tensor],
      slice: [tensor, [0, 0], [1, 1], [strides: [1, 1]]],
      transpose: [tensor, [axes: [1, 0]]],
      reshape: [tensor, {4}],
      broadcast: [tensor, {3, 2, 2}],
      squeeze: [tensor, [axes: []]],
      new_axis: [tensor, 0],
      writable?: [tensor],
      copied?: [tensor],
      release: [tensor],
      stats: [],
      include_dir: [],
      from_resource: [tensor.ref, {Tenon.Nif, :tenon_tensor_1}, []],
      to_blob: [tensor],
      from_blob: [Tenon.Blob.to_blob(tensor), [owner: tensor]]
    }

    for {name, arity} <- module.__info__(:functions), name != :__struct__ do
      {name, taken(arguments, name, arity)}
    end
  end

  defp calls(Tenon.Nif) do
    tensor = Tenon.from_list!([[1.0, 2.0], [3.0, 4.0]])
    blob = Tenon.Blob.to_blob(tensor)

    arguments = %{
      from_binary: [<<1, 2, 3, 4>>, nil, :u8, nil, :allow],
      to_binary: [tensor, :allow],
      zeros: [{2, 2}, :f32],
      from_list: [[1, 2], :f32],
      slice: [tensor, [0, 0], [1, 1], [1, 1]],
      transpose: [tensor, [1, 0]],
      reshape: [tensor, {4}],
      broadcast: [tensor, {3, 2, 2}],
      squeeze: [tensor, []],
      new_axis: [tensor, 0],
      stats: [],
      from_blob: [{blob.ptr, {2, 2}, nil, :f32, :cpu, 16, false, 4}, true, tensor, []],
      from_resource: [tensor.ref, Tenon.Nif, :tenon_tensor_1, false],
      library_open: [:nobody, {1, "/no/such.so", []}],
      library_describe: ["/no/such.so"],
      call: [:nobody, 1, {}]
    }

    for {name, arity} <- Tenon.Nif.__info__(:functions), name != :load do
      {name, arguments[name] || List.duplicate(tensor, arity)}
    end
  end

  defp plain(name), do: name |> Atom.to_string() |> String.replace_suffix("!", "") |> String.to_atom()

  defp taken(arguments, name, arity) do
    Enum.take(arguments[name] || arguments[plain(name)] || flunk("no arguments for #{name}"), arity)
  end

  for module <- [Tenon, Tenon.Blob, Tenon.Shared, Tenon.Nx, Tenon.Nif] do
    test "#{inspect(module)} with one argument that is anything" do
      for {name, arguments} <- calls(unquote(module)), at <- 0..(length(arguments) - 1)//1 do
        tensor = Tenon.zeros!({2, 2})
        for term <- garbage(tensor), do: call(unquote(module), name, List.replace_at(arguments, at, term))
      end

      assert Tenon.to_list!(Tenon.from_list!([1])) == [1]
    end
  end

  test "blobs with one field that is anything" do
    tensor = Tenon.zeros!({2, 2})
    blob = Tenon.Blob.to_blob(tensor)

    for key <- Map.keys(blob), key != :__struct__, term <- garbage(tensor) do
      call(Tenon.Blob, :from_blob, [Map.put(blob, key, term), []])
    end

    for option <- [:owner, :data_size, :immutable], term <- garbage(tensor) do
      call(Tenon.Blob, :from_blob, [blob, [{option, term}]])
    end

    for at <- 0..7, term <- garbage(tensor) do
      fields = {blob.ptr, {2, 2}, [2, 1], :f32, :cpu, nil, false, nil}
      call(Tenon.Nif, :from_blob, [put_elem(fields, at, term), false, nil, []])
    end
  end

  test "lists with anything in them, for each type" do
    tensor = Tenon.zeros!({1})

    for type <- [nil, :u8, :s64, :f16, :f32, :c64, :bool, :f8_e4m3fn, :f128], term <- garbage(tensor) do
      call(Tenon, :from_list, [[term], [type: type]])
      call(Tenon, :from_list, [[{term, 1}], [type: type]])
      call(Tenon, :from_list, [[[1], term], [type: type]])
    end
  end

  test "messages never write out an integer of more than 64 bits, and are short" do
    # Writing it takes seconds.
    huge = Bitwise.bsl(1, 1_000_000)
    tensor = Tenon.zeros!({2})
    name = String.to_atom(String.duplicate("é", 255))
    {:error, error} = Tenon.from_list([huge], type: :f64)
    assert error.message =~ "an integer of more than 64 bits is not a value of type f64"

    for term <- [huge, -huge, {huge, 1}, [huge], %{huge => 1}, name, List.duplicate(huge, 100)],
        call <- [
          fn -> Tenon.from_list!([term], type: :f64) end,
          fn -> Tenon.from_list!([term], type: :u8) end,
          fn -> Tenon.from_list!(term, type: term) end,
          fn -> Tenon.zeros!(term) end,
          fn -> Tenon.zeros!({term}, type: {:f, term}) end,
          fn -> Tenon.zeros!({1}, term) end,
          fn -> Tenon.zeros!({1}, [{term, 1}]) end,
          fn -> Tenon.zeros!({1}, [{:typ, term}]) end,
          fn -> Tenon.slice!(tensor, [term], term) end,
          fn -> Tenon.reshape!(tensor, {term}) end,
          fn -> Tenon.Blob.from_blob(term) end,
          fn -> Tenon.Blob.from_blob(%{ptr: term, shape: {term}, dtype: term}, term) end,
          fn -> Tenon.Nx.from_nx!(tensor, term) end,
          fn -> raise Tenon.Error, reason: {:unsupported_type, term} end
        ] do
      length = in_process(fn -> message_of(call) end)
      assert length < 4000
      assert length < 600 or term == name
    end
  end

  test "nor do they with what a backend of Nx gives or raises" do
    huge = Bitwise.bsl(1, 1_000_000)
    pointer = struct!(Nx.Pointer, kind: :local, address: 4096, data_size: huge)
    many = Map.new(1..100_000, &{&1, huge})

    for {give, said} <- [
          {fn -> pointer end, "without a local address"},
          {fn -> %{pointer | data_size: 4, address: huge} end, "without a local address"},
          {fn -> :erlang.error({:badmatch, huge}) end, "MatchError"},
          {fn -> :erlang.error({:badmatch, {1, [many]}}) end, "MatchError"},
          {fn -> :erlang.error({:badmatch, List.to_tuple(List.duplicate(huge, 5000))}) end, "MatchError"},
          {fn -> :erlang.error({:badmatch, [1 | 2]}) end, "no match of right hand side value: [1 | 2]"},
          {fn -> raise String.duplicate("é\u0301", 10_000) end, "é"},
          {fn -> raise <<255, 254>> end, "RuntimeError"}
        ] do
      tensor = Tenon.Test.Backend.tensor(Tenon.zeros!({1}), {:f, 32}, {1}, pointer: give)
      message = in_process(fn -> elem(Tenon.Nx.from_nx(tensor, device: :cpu), 1).message end)
      assert message =~ said
      assert byte_size(message) < 4000 and String.valid?(message)
    end
  end

  defp message_of(call) do
    call.()
    0
  rescue
    error in [ArgumentError, Tenon.Error] ->
      message = Exception.message(error)
      assert String.valid?(message)
      byte_size(message)
  end

  # In a process of its own, so that what it made can go.
  defp call(module, name, arguments) do
    in_process(fn ->
      try do
        case apply(module, name, arguments) do
          {:error, %Tenon.Error{} = error} ->
            assert is_binary(Exception.message(error)) and String.valid?(error.message)

          _ ->
            :ok
        end
      rescue
        error -> assert error.__struct__ in @raised, "#{name}: #{Exception.message(error)}"
      end

      :ok
    end)
  end
end
