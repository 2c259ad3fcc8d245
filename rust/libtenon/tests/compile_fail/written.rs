// it is written to ('rw'), so take a `&mut [T]`, a `ViewMut` or `CellsMut`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c rw)")] //~
    fn f(_: &[f32]) {}
}
fn main() {}
