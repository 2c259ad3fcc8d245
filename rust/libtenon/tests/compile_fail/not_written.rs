// it is not written to; add 'rw' to the signature, or take a shared reference
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c)")] //~
    fn f(_: &mut [f32]) {}
}
fn main() {}
