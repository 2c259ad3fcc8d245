defmodule Tenon.BlobView do
  @moduledoc """
  What `Tenon.Blob.from_blob/2` gives if it was given the option `:owner`: the tensor, and the owner.

  `view.tensor` alone keeps the owner alive too.
  """

  @type t :: %__MODULE__{tensor: Tenon.Tensor.t(), owner: term}

  defstruct [:tensor, :owner]
end
