// the callback may change it, so take `Cells` or `CellsMut`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c, g: callable('(i: int)'))")] //~
    fn f(_: &[f32], _: Callback<(i64,), ()>) {}
}
fn main() {}
