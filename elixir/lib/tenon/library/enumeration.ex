defmodule Tenon.Library.Enumeration do
  @moduledoc false
  # Enumerable for the objects of libraries. `names` has the module of the class, and its functions: see
  # Tenon.Library.Compiler.

  require Tenon.Error

  # The object that __iter__ returns is closed at the end. If the enumeration is abandoned, it is garbage.
  def reduce(%{iter: {iter, class, next}} = names, object, acc, fun) do
    iterator = Tenon.Error.value!(apply(names.module, iter, [object]))
    step(fn _ -> apply(class, next, [iterator]) end, 0, acc, fun, fn -> class.close(iterator) end)
  end

  def reduce(%{next: next} = names, object, acc, fun) when next != nil,
    do: step(fn _ -> apply(names.module, next, [object]) end, 0, acc, fun, fn -> :ok end)

  def reduce(%{at: at} = names, object, acc, fun),
    do: step(&apply(names.module, at, [object, &1]), 0, acc, fun, fn -> :ok end)

  defp step(_item, _index, {:halt, acc}, _fun, close) do
    close.()
    {:halted, acc}
  end

  defp step(item, index, {:suspend, acc}, fun, close),
    do: {:suspended, acc, &step(item, index, &1, fun, close)}

  defp step(item, index, {:cont, acc}, fun, close) do
    case item.(index) do
      {:ok, value} ->
        step(item, index + 1, fun.(value, acc), fun, close)

      {:error, %Tenon.Error{reason: {:failed, :ebounds}}} ->
        close.()
        {:done, acc}

      {:error, error} ->
        raise error
    end
  end

  def count(%{size: nil}, _object, implementation), do: {:error, implementation}
  def count(names, object, _implementation), do: {:ok, Tenon.Error.value!(apply(names.module, names.size, [object]))}

  def member?(%{contains: nil}, _object, _value, implementation), do: {:error, implementation}
  def member?(names, object, value, _implementation), do: {:ok, apply(names.module, names.contains, [object, value])}
end
