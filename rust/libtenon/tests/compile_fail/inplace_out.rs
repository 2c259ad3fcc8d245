// parameter 2 of the Rust function is `Out<f32>`, but this result is 'f32[n] inplace(x)': it may share memory
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n]) -> f32[n] inplace(x)")] //~
    fn f(_: Cells<f32, 1>, _: Out<f32>) {}
}
fn main() {}
