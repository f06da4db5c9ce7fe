# What people write: no quotes, other cases, comments anywhere.
create table if not exists People (
  Id integer primary key auto_increment, -- the key
  Name varchar(40) not null /* no default */,
  Age tinyint unsigned null check (Age < 200)
);
insert into People values (null, 'Ann', 30), (null, "Bob", null);
insert into People (Name) values ('Cid'); insert into People set Name = 'Dee', Age = 20 + 1;
update People set Age = 31 where Name = 'Ann';
insert into People (Name, Age) select concat(Name, ' jr'), 1 from People where Age > 30;
delete from People where Name = 'Bob';
create index by_name on People (Name);
alter table People add column Note varchar(10) default 'x', add unique key (Name, Age);
create table Copy like People;
insert into Copy select * from People;
rename table Copy to Archive;
create or replace view Old as select Name from People where Age > 20;
replace into Archive values (1, 'Ann', 32, 'new');
