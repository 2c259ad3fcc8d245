// the number of dimensions is another one
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[**b, n])")] //~
    fn f(_: Batch<f32>) {}
}
fn main() {}
