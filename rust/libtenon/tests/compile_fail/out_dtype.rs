// parameter 2 of the Rust function is `Out<f64>`, but this result is 'f32[n]': the dtype is another one
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(n: int) -> f32[n]")] //~
    fn f(_: i64, _: Out<f64>) {}
}
fn main() {}
