defmodule Tenon.BlobView do
  @moduledoc """
  The result of `Tenon.Blob.from_blob/2` with the option `:owner`: the tensor and the owner.

  `view.tensor` by itself keeps the owner alive too.
  """

  @type t :: %__MODULE__{tensor: Tenon.Tensor.t(), owner: term}

  defstruct [:tensor, :owner]
end
