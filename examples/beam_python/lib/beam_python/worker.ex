defmodule BeamPython.Worker do
  @moduledoc """
  A Python process that a port owns. It ends with this process.

  A port's child inherits only its standard streams, so tensors travel as names. A request is a line: the name of a function
  in worker.py, and the names of its tensors. The answer is a line too: `ok`, `ok NAME` with a new tensor, or `error TEXT`.
  """
  use GenServer

  @script Path.expand("../../worker.py", __DIR__)

  @doc "Starts Python: the interpreter is `python:`, or the variable PYTHON, or python3."
  def start_link(options \\ []), do: GenServer.start_link(__MODULE__, options)

  @doc """
  Calls a function of worker.py with shared tensors. Returns `:ok`, `{:ok, tensor}` or `{:error, message}`.

  Any process may call; Python gets one request after the other.
  """
  def call(worker, function, tensors) do
    with {:ok, line} <- request(function, tensors), do: GenServer.call(worker, {:call, line, tensors}, :infinity)
  catch
    :exit, {reason, _} when reason in [:noproc, :normal] -> {:error, "Python has ended"}
  end

  defp request(function, tensors) do
    if function =~ ~r/\A[A-Za-z0-9_]+\z/ do
      {:ok, Enum.join([function | Enum.map(tensors, &Tenon.Shared.name!/1)], " ") <> "\n"}
    else
      {:error, "#{inspect(function)} is not the name of a function"}
    end
  rescue
    error in Tenon.Error -> {:error, error.message}
  end

  @impl true
  def init(options) do
    # A port that cannot write ends with an exit signal.
    Process.flag(:trap_exit, true)
    python = options[:python] || System.get_env("PYTHON", "python3")

    case System.find_executable(python) do
      nil ->
        {:stop, "#{python} is not installed"}

      path ->
        port = Port.open({:spawn_executable, path}, [:binary, :exit_status, {:line, 65_536}, args: ["-u", @script]])
        {:ok, %{port: port, requests: :queue.new()}}
    end
  end

  @impl true
  def handle_call({:call, line, tensors}, from, state) do
    if :queue.is_empty(state.requests), do: send_line(state.port, line)
    # A name is valid as long as its tensor is held, so the tensors stay here until Python has answered.
    {:noreply, %{state | requests: :queue.in({from, line, tensors}, state.requests)}}
  end

  @impl true
  def handle_info({port, {:data, {:eol, line}}}, %{port: port} = state) do
    {{:value, {from, _line, _tensors}}, requests} = :queue.out(state.requests)
    GenServer.reply(from, answer(line))

    # Python releases its result at the next request, which therefore comes after answer() has attached to it.
    with {:value, {_from, next, _tensors}} <- :queue.peek(requests), do: send_line(port, next)
    {:noreply, %{state | requests: requests}}
  end

  def handle_info({port, {:exit_status, status}}, %{port: port} = state) do
    {:stop, :normal, fail_all(state, "Python has ended with status #{status}")}
  end

  def handle_info({:EXIT, port, reason}, %{port: port} = state) do
    {:stop, :normal, fail_all(state, "the pipe to Python has ended: #{inspect(reason)}")}
  end

  def handle_info({:EXIT, _other, reason}, state), do: {:stop, reason, state}

  # A message, unlike Port.command/2, does not raise if Python has just ended; its end is a message too.
  defp send_line(port, line), do: send(port, {self(), {:command, line}})

  defp fail_all(state, message) do
    for {from, _line, _tensors} <- :queue.to_list(state.requests), do: GenServer.reply(from, {:error, message})
    %{state | requests: :queue.new()}
  end

  # Python holds a new tensor until the next request, so it is attached to at once.
  defp answer("ok " <> name), do: with({:error, error} <- Tenon.Shared.attach(name), do: {:error, error.message})
  defp answer("ok"), do: :ok
  defp answer("error " <> text), do: {:error, text}
end
