fn main() { println!("x"); }
