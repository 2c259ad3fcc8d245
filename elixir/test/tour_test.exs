defmodule Tenon.TourTest do
  use Tenon.Case

  test "every cell of the tour runs" do
    text = File.read!(Path.expand("../tour.livemd", __DIR__))
    cells = Regex.scan(~r/^```elixir\n(.*?)^```/ms, text, capture: :all_but_first)
    assert length(cells) > 5
    in_process(fn -> cells |> Enum.map_join("\n", &hd/1) |> Code.eval_string() && :ok end)
  end
end
