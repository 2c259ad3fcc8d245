// the memory may be unaligned, so take an `AnyTensor`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c unaligned)")] //~
    fn f(_: &[f32]) {}
}
fn main() {}
