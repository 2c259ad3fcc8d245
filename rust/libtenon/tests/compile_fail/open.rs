// only the function knows its size, so take an `Open`, or return a `Vec`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(n: int) -> f32[?]")] //~
    fn f(_: i64, _: Out<f32>) {}
}
fn main() {}
