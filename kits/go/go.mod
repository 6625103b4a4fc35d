module fencepost.example/kits/go

go 1.19
