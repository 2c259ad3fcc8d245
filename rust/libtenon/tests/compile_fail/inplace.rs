// parameter 1 of the Rust function is `&[f32]`, but the argument 'x' is 'f32[n] c': it may share memory
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c) -> f32[n] inplace(x)")] //~
    fn f(_: &[f32], _: CellsMut<f32, 1>) {}
}
fn main() {}
