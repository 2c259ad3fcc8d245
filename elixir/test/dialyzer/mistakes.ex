defmodule Tenon.Test.Mistakes do
  @moduledoc false
  # What Dialyzer must refuse, for tools/check-dialyzer.

  # It gives a tuple.
  def tuple do
    # refused
    %Tenon.Tensor{} = Tenon.zeros({2, 3})
  end
end
