// What the bundler or a package without types has.
declare const LICENCES: string; // address of the licence texts
declare module "prismjs/components/*";
