defmodule Tenon.Nif do
  @moduledoc false
  # The stubs that the NIF replaces. c_src/nif.h says what each takes and gives.

  @on_load :load

  @doc false
  def load do
    :tenon |> Application.app_dir("priv/tenon_nif") |> String.to_charlist() |> :erlang.load_nif(0)
  end

  def from_binary(_binary, _type, _shape, _copy), do: missing()
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
  def release(_tensor), do: missing()
  def stats, do: missing()
  def to_blob(_tensor), do: missing()
  def from_blob(_fields, _has_owner, _owner), do: missing()
  def from_resource(_ref, _module, _type, _immutable), do: missing()

  def library_open(_module, _path), do: missing()
  def library_describe(_path), do: missing()
  def call(_module, _index, _arguments), do: missing()

  defp missing, do: :erlang.nif_error(:not_loaded)
end
