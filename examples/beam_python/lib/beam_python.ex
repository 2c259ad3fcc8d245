defmodule BeamPython do
  @moduledoc "The BEAM and Python on one memory, in two processes."

  alias BeamPython.Worker
  alias Tenon.Shared

  def main do
    {:ok, python} = Worker.start_link()

    # Memory of the BEAM, which Python fills. Only its name crosses.
    x = Shared.zeros!({1_000_000})
    done!(Worker.call(python, "fill", [x]))
    IO.inspect(first(x), label: "filled by Python")

    # Memory of Python, in which Python changes a number that the BEAM has read.
    y = done!(Worker.call(python, "squares", [x]))
    before = first(y)
    IO.inspect(before, label: "made by Python")
    done!(Worker.call(python, "double", [y]))
    same = first(x) == [0.0, 1.0, 2.0, 3.0] and first(y) == Enum.map(before, &(2 * &1))

    # Frozen memory is read-only for everyone.
    {:error, message} = Worker.call(python, "double", [Shared.freeze!(x)])
    IO.puts("frozen: #{message}")

    IO.puts("same memory: #{same}")
  end

  defp first(tensor), do: Tenon.to_list!(Tenon.slice!(tensor, [0], [4]))

  defp done!(:ok), do: :ok
  defp done!({:ok, tensor}), do: tensor
  defp done!({:error, message}), do: raise(message)
end
