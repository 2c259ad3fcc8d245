defmodule Tenon.Error do
  @moduledoc """
  The error that functions of Tenon return in `{:error, error}`, and that their variants with `!` raise.

  `reason` is one of these:

    * `{:badarg, argument}`, `{:mismatch, argument}`, `{:size_mismatch, expected, got}`, `{:overflow, what}`
    * `{:unsupported_type, type}`, `{:misaligned, need, got}`, `{:device_mismatch, want, got}`
    * `:not_contiguous`, `:would_copy`: the operation would need a copy
    * `:readonly`: the memory must not be written to
    * `:busy`: the memory is being read or written by another call, or a view of it prevents that it is frozen
    * `:released`: the tensor was released, or the object is closed
    * `:stale`, `{:not_local, node}`: the tensor or object belongs to an earlier run of this node, or to another node
    * `:overlap`, `{:failed, status}`, `{:library, why}`: from functions written in C
    * `{:failed, :no_memory}`, `{:library, :nif}` (the NIF of Tenon could not be loaded): from all functions
    * `{:library, :nx}` (Nx is not installed): from `Tenon.Nx` and from calls with an Nx tensor
    * `{:owner_too_large, words}`: from `Tenon.Blob.from_blob/2`
    * `{:shared, :invalid}` (not a name), `{:shared, :version}` (of another version of Tenon): from `Tenon.Shared.attach/2`
    * `{:system, :enoent | :eacces | :enosys | …}`: the operating system refused; from `Tenon.Shared`. It is the name of the
      system's error, in lower case, or its number

  `message` describes the error for people; `function` and `argument` are atoms, or nil.
  """

  @type reason ::
          {:badarg, atom}
          | {:mismatch, atom}
          | {:size_mismatch, expected :: non_neg_integer, got :: non_neg_integer}
          | {:overflow, atom}
          | {:unsupported_type, term}
          | {:misaligned, need :: pos_integer, got :: non_neg_integer}
          | {:device_mismatch, want :: Tenon.Tensor.device(), got :: Tenon.Tensor.device()}
          | :not_contiguous
          | :would_copy
          | :readonly
          | :busy
          | :released
          | :stale
          | {:not_local, node}
          | :overlap
          | {:failed, atom | integer}
          | {:library, :nif | :nx | :unreadable | :invalid | :signature | :load}
          | {:owner_too_large, words :: pos_integer}
          | {:shared, :invalid | :version}
          | {:system, atom | integer}

  @type t :: %__MODULE__{reason: reason, message: String.t(), function: atom, argument: atom}

  defexception [:reason, :message, :function, :argument]

  # For the functions with a `!`, and for those that return plain values. It is a macro, so that the stack trace begins
  # with the function that was called.
  @doc false
  defmacro value!(result) do
    quote generated: true do
      case unquote(result) do
        {:ok, value} -> value
        {:error, error} -> raise error
        {:raise, error} -> raise error
        value -> value
      end
    end
  end

  # For the functions of libraries without a `!`. Their NIF cannot raise, because the stack trace would begin with it.
  @doc false
  defmacro result!(result) do
    quote generated: true do
      case unquote(result) do
        {:raise, error} -> raise error
        result -> result
      end
    end
  end

  # The message without the name of the function.
  @doc false
  def why(%__MODULE__{function: function, message: message}) do
    String.replace_prefix(message, "#{function}(): ", "")
  end

  @impl true
  def message(%__MODULE__{message: message}) when is_binary(message), do: message
  def message(%__MODULE__{reason: reason}), do: Tenon.Options.show(reason)
end
