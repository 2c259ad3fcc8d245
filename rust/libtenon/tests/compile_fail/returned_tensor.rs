// the host allocates this result, so take an `Out` parameter
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(n: int) -> f32[n]")] //~
    fn f(_: i64) -> Vec<f32> { vec![] }
}
fn main() {}
