// a generic function needs dtype variables in its signature
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[function("f(x: f32[n] c)")] //~
    fn f<T: Element>(_: &[T]) {}
}
fn main() {}
