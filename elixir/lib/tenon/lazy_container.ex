defmodule Nx.LazyContainer.Tenon.Tensor do
  @moduledoc false
  # The module that `defimpl Nx.LazyContainer, for: Tenon.Tensor` would make. `defimpl` needs Nx when Tenon is compiled;
  # Nx finds this module whichever of the two was compiled first.

  Module.register_attribute(__MODULE__, :__impl__, persist: true)
  @__impl__ [protocol: Nx.LazyContainer, for: Tenon.Tensor]

  def __impl__(:target), do: __MODULE__
  def __impl__(:for), do: Tenon.Tensor
  def __impl__(:protocol), do: Nx.LazyContainer

  def traverse(tensor, acc, fun) do
    case Tenon.Nx.template(tensor) do
      {:ok, template} -> fun.(template, fn -> Tenon.Nx.to_nx!(tensor, copy: :allow) end, acc)
      {:error, error} -> raise error
    end
  end
end
