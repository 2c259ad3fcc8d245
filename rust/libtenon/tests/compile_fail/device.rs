// the memory may be on a device, so take an `AnyTensor`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c cuda)")] //~
    fn f(_: &[f32]) {}
}
fn main() {}
