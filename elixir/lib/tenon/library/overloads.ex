defmodule Tenon.Library.Overloads do
  @moduledoc false
  # Overloaded functions: entries of one name, which are tried in the order of the library's table.

  import Bitwise

  # In a key: arguments are not converted. c_src/call.c has the same bit.
  @exact 1 <<< 56
  def exact, do: @exact

  @doc "Calls the first entry that fits. `calls` has the key and the arguments of each."
  def call(module, calls, reasons \\ [])

  def call(module, [{key, arguments} | rest], reasons) do
    case Tenon.Library.__call__(module, key, arguments) do
      {:raise, error} ->
        call(module, rest, [{key, Exception.message(error)} | reasons])

      {:error, %Tenon.Error{} = error} = result ->
        if mismatch?(error), do: call(module, rest, [{key, error.message} | reasons]), else: result

      result ->
        result
    end
  end

  def call(module, [], [{key, _} | _] = reasons) do
    {name, _params} = Enum.at(module.__tenon_library__().names, index(key))
    # Each entry was tried without conversion, and then with it.
    reasons = Enum.reject(reasons, fn {key, _} -> (key &&& @exact) != 0 end)
    lines = reasons |> Enum.reverse() |> Enum.map_join(&line(module, name, &1))
    message = "#{name}(): no signature fits the arguments#{lines}"
    {:error, %Tenon.Error{reason: {:mismatch, nil}, function: name, message: message}}
  end

  # Whether the arguments do not fit. Any other error is of the function, or of an argument that fits: it is in use, closed,
  # or gone.
  defp mismatch?(%{reason: {:mismatch, _}, argument: argument}), do: argument != nil
  defp mismatch?(%{reason: {reason, _}}), do: reason in [:badarg, :overflow, :unsupported_type]
  defp mismatch?(%{reason: {reason, _, _}}), do: reason in [:size_mismatch, :device_mismatch]
  defp mismatch?(%{reason: reason}), do: reason in [:readonly, :overlap]

  defp line(module, name, {key, message}) do
    signature = module.__tenon_library__().functions |> Enum.at(index(key)) |> elem(0)
    why = message |> String.replace_prefix("#{name}(): ", "") |> String.split(~r/\n\s*/) |> Enum.join("; ")
    "\n  #{signature}: #{why}"
  end

  defp index(key), do: key &&& 0xFFFFF
end
