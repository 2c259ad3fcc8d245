// that is another class
#![forbid(unsafe_code)]
#[tenon::module(private)]
mod kernels {
    #[allow(unused_imports)]
    use tenon::*;
    #[class]
    struct A;
    #[class]
    struct B;
    impl A {
    #[function("A.f(self)")] //~
    fn f(_: &B) {}
    }
}
fn main() {}
