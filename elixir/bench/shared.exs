# A tensor for a Python process: by name in shared memory, and as bytes over the port.
#
#   PYTHON=… PYTHONPATH=… MIX_ENV=bench mix run bench/shared.exs [--quick]
#
# Python is a port with packets. It adds up the first and the last element of each tensor that it receives, and answers with
# the sum. A figure is the minimum of the round trips; contenders take turns.

defmodule Bench.Shared do
  @program """
  import struct, sys
  import numpy as np
  import tenon
  read, write = sys.stdin.buffer, sys.stdout.buffer
  while head := read.read(4):
      packet = read.read(struct.unpack(">I", head)[0])
      if packet.startswith(b"tenon-shared:"):
          array = np.from_dlpack(tenon.attach(packet.decode()))
      else:
          array = np.frombuffer(packet, "float32")
      answer = struct.pack("=f", array[0] + array[-1])
      del array, packet  # freeing them is part of the round trip
      write.write(struct.pack(">I", len(answer)) + answer)
      write.flush()
  """

  def run(quick) do
    python = System.find_executable(System.get_env("PYTHON", "python3")) || raise("Python is not installed")
    arguments = [:binary, :exit_status, packet: 4, args: ["-c", @program]]
    port = Port.open({:spawn_executable, python}, arguments)

    for bytes <- [4 * 1024, 1024 * 1024, 64 * 1024 * 1024] do
      numbers = :binary.copy(<<1.0::float-32-native>>, div(bytes, 4))
      shared = Tenon.Shared.share!(Tenon.from_binary!(numbers, :f32))
      plain = Tenon.from_binary!(numbers, :f32, copy: :always)

      contenders = [
        {"the name of a shared tensor", fn -> ask(port, Tenon.Shared.name!(shared)) end},
        {"share, then the name", fn -> share_and_ask(port, plain) end},
        {"the bytes", fn -> ask(port, numbers) end}
      ]

      rounds = if quick, do: 5, else: 30
      samples = for _ <- 1..rounds, {name, sample} <- contenders, do: {name, time(sample)}

      for {name, _} <- contenders do
        least = samples |> Enum.filter(&(elem(&1, 0) == name)) |> Enum.map(&elem(&1, 1)) |> Enum.min()
        size = String.pad_leading("#{div(bytes, 1024)} KiB", 10)

        IO.puts(
          "#{size}  #{String.pad_trailing(name, 30)} #{String.pad_leading("#{Float.round(least / 1000, 1)}", 10)} µs"
        )
      end

      Tenon.release(shared)
    end

    Port.close(port)
  end

  defp time(sample) do
    start = System.monotonic_time(:nanosecond)
    2.0 = sample.()
    System.monotonic_time(:nanosecond) - start
  end

  # The release comes after the answer, so that the name is valid until then.
  defp share_and_ask(port, tensor) do
    shared = Tenon.Shared.share!(tensor)
    sum = ask(port, Tenon.Shared.name!(shared))
    Tenon.release(shared)
    sum
  end

  defp ask(port, packet) do
    Port.command(port, packet)

    receive do
      {^port, {:data, <<sum::float-32-native>>}} -> sum
      {^port, {:exit_status, status}} -> raise "Python has ended with status #{status}"
    end
  end
end

Bench.Shared.run("--quick" in System.argv())
