defmodule Tenon.Nif do
  @moduledoc false
  # The stubs that the NIF replaces. c_src/nif.h describes their arguments and results.

  @on_load :load

  # If the NIF cannot be loaded, the module is loaded nevertheless, and each call returns the reason: failing here would
  # stop a release at boot. During an upgrade it may fail; then the old code stays.
  @doc false
  def load do
    with {:error, why} <- load_nif() do
      :persistent_term.put(__MODULE__, failure("the NIF of Tenon cannot be loaded: #{why}"))
      if :erlang.module_loaded(__MODULE__), do: {:error, why}, else: :ok
    end
  end

  defp load_nif do
    path = Application.app_dir(:tenon, "priv/tenon_nif")
    with {:error, {_, why}} <- :erlang.load_nif(String.to_charlist(path), 0), do: {:error, why}
  rescue
    # The application's folder has another name, or does not exist.
    error in ArgumentError -> {:error, Exception.message(error)}
  end

  def from_binary(_binary, _part, _type, _shape, _copy), do: missing()
  def to_binary(_tensor, _copy), do: missing()
  def zeros(_shape, _type), do: missing()
  def from_list(_list, _type), do: missing()
  def to_list(_tensor), do: missing()
  def slice(_tensor, _starts, _lengths, _strides), do: missing()
  def transpose(_tensor, _axes), do: missing()
  def reshape(_tensor, _shape), do: missing()
  def broadcast(_tensor, _shape), do: missing()
  def squeeze(_tensor, _axes), do: missing()
  def new_axis(_tensor, _axis), do: missing()
  def writable(_tensor), do: missing()
  def copied(_tensor), do: missing()
  def unowned(_tensor), do: missing()
  def release(_tensor), do: missing()
  def stats, do: missing()
  def to_blob(_tensor), do: missing()
  def from_blob(_fields, _has_owner, _owner, _known), do: missing()
  def from_resource(_ref, _module, _type, _immutable), do: missing()

  def shared_zeros(_shape, _type), do: missing()
  def shared_share(_tensor), do: missing()
  def shared_freeze(_tensor), do: missing()
  def shared_name(_tensor), do: missing()
  def shared_attach(_name, _immutable), do: missing()

  def library_open(_module, _path), do: missing()
  def library_describe(_path), do: missing()
  def call(_module, _index, _arguments), do: missing()
  def close(_module, _index, _object, _class), do: missing()

  # Read from a place of unknown type: otherwise the compiler and Dialyzer would infer that every function returns this.
  defp missing, do: :persistent_term.get(__MODULE__, failure("the NIF of Tenon is not loaded"))

  defp failure(message), do: {:error, %Tenon.Error{reason: {:library, :nif}, message: message}}
end
