defmodule Tenon.ViewTest do
  use Tenon.Case

  # Views are made of random steps, and compared with the same steps on nested lists.

  test "generated views against lists" do
    :rand.seed(:exsss, {1, 2, 3})

    for _ <- 1..300 do
      shape = Enum.map(1..:rand.uniform(4)//1, fn _ -> :rand.uniform(4) end)
      count = Enum.product(shape)
      tensor = Tenon.reshape!(Tenon.from_list!(Enum.to_list(1..count), type: random_type()), shape)
      list = fold(Enum.map(1..count, &number(tensor, &1)), shape)
      assert Tenon.to_list!(tensor) == list

      Enum.reduce(1..:rand.uniform(5), {tensor, list, shape}, fn _, {tensor, list, shape} ->
        {tensor, list, shape} = step(Enum.random(~w(slice transpose new_axis squeeze broadcast)a), tensor, list, shape)
        assert Tenon.to_list!(tensor) == list
        assert tensor.shape == List.to_tuple(shape)

        assert Tenon.to_list!(Tenon.from_binary!(Tenon.to_binary!(tensor, copy: :always), tensor.type, shape: shape)) ==
                 list

        {tensor, list, shape}
      end)
    end
  end

  defp random_type, do: Enum.random([{:u, 8}, {:s, 16}, {:f, 32}, {:f, 64}, {:s, 64}, {:c, 64}])

  defp number(%{type: {:f, _}}, n), do: n * 1.0
  defp number(%{type: {:c, _}}, n), do: {n * 1.0, 0.0}
  defp number(_tensor, n), do: n

  defp fold(numbers, [_]), do: numbers
  defp fold(numbers, [_ | inner]), do: numbers |> Enum.chunk_every(Enum.product(inner)) |> Enum.map(&fold(&1, inner))
  defp fold([number], []), do: number

  defp step(:slice, tensor, list, shape) do
    starts = Enum.map(shape, fn size -> :rand.uniform(size + 1) - 1 end)
    lengths = Enum.zip_with(shape, starts, fn size, start -> :rand.uniform(size - start + 1) - 1 end)
    lengths = if Enum.product(lengths) == 0, do: Enum.zip_with(shape, starts, &(&1 - &2)), else: lengths
    strides = Enum.map(shape, fn _ -> :rand.uniform(3) end)
    kept = Enum.zip_with(lengths, strides, fn length, stride -> ceil(length / stride) end)
    cut = cut(list, Enum.zip([starts, lengths, strides]))

    if Enum.product(kept) == 0,
      do: {tensor, list, shape},
      else: {Tenon.slice!(tensor, starts, lengths, strides: strides), cut, kept}
  end

  defp step(:transpose, tensor, list, shape) do
    axes = Enum.shuffle(Enum.to_list(0..(length(shape) - 1)//1))
    new_shape = Enum.map(axes, &Enum.at(shape, &1))
    {Tenon.transpose!(tensor, axes: axes), permute(list, shape, axes), new_shape}
  end

  defp step(:new_axis, tensor, list, shape) when length(shape) < 6 do
    axis = :rand.uniform(length(shape) + 1) - 1
    {Tenon.new_axis!(tensor, axis), wrap(list, axis), List.insert_at(shape, axis, 1)}
  end

  defp step(:squeeze, tensor, list, shape) do
    {Tenon.squeeze!(tensor), fold(flat(list, length(shape)), Enum.reject(shape, &(&1 == 1))),
     Enum.reject(shape, &(&1 == 1))}
  end

  defp step(:broadcast, tensor, list, shape) when length(shape) < 5 do
    {Tenon.broadcast!(tensor, [2 | shape]), [list, list], [2 | shape]}
  end

  defp step(_step, tensor, list, shape), do: {tensor, list, shape}

  defp cut(value, []), do: value

  defp cut(list, [{start, length, stride} | inner]) do
    list |> Enum.slice(start, length) |> Enum.take_every(stride) |> Enum.map(&cut(&1, inner))
  end

  defp wrap(value, 0), do: [value]
  defp wrap(list, axis), do: Enum.map(list, &wrap(&1, axis - 1))

  defp flat(value, 0), do: [value]
  defp flat(list, depth), do: Enum.flat_map(list, &flat(&1, depth - 1))

  defp permute(list, shape, axes) do
    new_shape = Enum.map(axes, &Enum.at(shape, &1))

    indices(new_shape)
    |> Enum.map(fn index ->
      axes |> Enum.zip(index) |> Enum.sort() |> Enum.reduce(list, fn {_, i}, inner -> Enum.at(inner, i) end)
    end)
    |> fold(new_shape)
  end

  defp indices([]), do: [[]]
  defp indices([size | inner]), do: for(i <- 0..(size - 1), rest <- indices(inner), do: [i | rest])

  test "views share the memory and the right to write" do
    tensor = Tenon.zeros!({4, 6})
    view = tensor |> Tenon.transpose!() |> Tenon.slice!([1, 1], [4, 2], strides: [2, 1])
    assert {view.shape, view.strides} == {{2, 2}, [2, 6]}
    assert address(view) == address(tensor) + 4 * (1 + 6)
    assert Tenon.writable?(view)
    Tenon.to_binary!(tensor)
    refute Tenon.writable?(view)
  end

  test "reshape of what is not contiguous needs a copy" do
    tensor = Tenon.transpose!(Tenon.zeros!({2, 3}))
    assert reason(Tenon.reshape(tensor, {6})) == :not_contiguous
    assert Tenon.reshape!(tensor, {3, 1, 2}).shape == {3, 1, 2}
    assert Tenon.reshape!(Tenon.zeros!({2, 3}), {-1, 2}).shape == {3, 2}
  end

  test "what is wrong" do
    tensor = Tenon.zeros!({2, 3})

    for {expected, result} <- [
          {{:badarg, :starts}, Tenon.slice(tensor, [0], [1, 1])},
          {{:badarg, :starts}, Tenon.slice(tensor, [-1, 0], [1, 1])},
          {{:badarg, :starts}, Tenon.slice(tensor, [3, 0], [1, 1])},
          {{:badarg, :lengths}, Tenon.slice(tensor, [0, 0], [1, 4])},
          {{:badarg, :lengths}, Tenon.slice(tensor, [0, 0], [1, -1])},
          {{:badarg, :lengths}, Tenon.slice(tensor, [0, 1], [1, 9_223_372_036_854_775_807])},
          {{:badarg, :strides}, Tenon.slice(tensor, [0, 0], [1, 1], strides: [1, 0])},
          {{:badarg, :axes}, Tenon.transpose(tensor, axes: [0, 0])},
          {{:badarg, :axes}, Tenon.transpose(tensor, axes: [0])},
          {{:badarg, :axes}, Tenon.transpose(tensor, axes: [0, 2])},
          {{:size_mismatch, 4, 6}, Tenon.reshape(tensor, {2, 2})},
          {{:badarg, :shape}, Tenon.reshape(tensor, {-1, -1})},
          {{:badarg, :shape}, Tenon.reshape(tensor, {-1, 4})},
          {{:badarg, :shape}, Tenon.reshape(tensor, "x")},
          {{:badarg, :shape}, Tenon.broadcast(tensor, {2, 4})},
          {{:badarg, :shape}, Tenon.broadcast(tensor, {3})},
          {{:overflow, :shape}, Tenon.broadcast(tensor, {4_611_686_018_427_387_904, 4, 2, 3})},
          {{:badarg, :axes}, Tenon.squeeze(tensor, axes: [0])},
          {{:badarg, :axes}, Tenon.squeeze(Tenon.zeros!({1, 1}), axes: [0, 0])},
          {{:badarg, :axes}, Tenon.squeeze(tensor, axes: [5])},
          {{:badarg, :axis}, Tenon.new_axis(tensor, 4)},
          {{:badarg, :axis}, Tenon.new_axis(tensor, :x)}
        ] do
      assert reason(result) == expected
    end

    assert Tenon.squeeze!(Tenon.zeros!({1, 2, 1}), axes: [-1]).shape == {1, 2}
    # Only the sanitizer sees that its stride in bytes would overflow.
    assert Tenon.to_list!(Tenon.slice!(tensor, [0, 0], [2, 1], strides: [2 ** 62, 2 ** 62])) == [[0.0]]

    for {argument, {:error, error}} <- [
          axes: Tenon.squeeze(tensor, axes: [0]),
          axis: Tenon.new_axis(tensor, 4),
          tensor: Tenon.reshape(Tenon.transpose!(tensor), {6})
        ] do
      assert error.message =~ "argument '#{argument}'"
      refute error.message =~ "tenon_"
    end
  end
end
