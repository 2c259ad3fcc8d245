// it has no batch ('**b')
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n])")] //~
    fn f(_: Batch<f32, 1>) {}
}
fn main() {}
