// only an argument with 'keep' can be kept
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n])")] //~
    fn f(_: Kept<f32>) {}
}
fn main() {}
