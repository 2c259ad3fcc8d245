// its dtype is known only at run time, so take an `AnyTensor`, or a generic function and `where`
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32|f64[n] c)")] //~
    fn f(_: &[f32]) {}
}
fn main() {}
