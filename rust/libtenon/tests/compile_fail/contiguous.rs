// a slice needs 'c' in the signature; a `View` takes any strides
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n])")] //~
    fn f(_: &[f32]) {}
}
fn main() {}
