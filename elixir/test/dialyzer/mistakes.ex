defmodule Tenon.Test.Mistakes do
  @moduledoc false
  # What Dialyzer must refuse, for tools/check-dialyzer.

  # There is no such reason.
  def reason(tensor) do
    case Tenon.to_binary(tensor) do
      {:ok, binary} -> binary
      # refused
      {:error, %Tenon.Error{reason: :no_such_reason}} -> ""
    end
  end

  # It gives a tuple.
  def tuple do
    # refused
    %Tenon.Tensor{} = Tenon.zeros({2, 3})
  end
end
