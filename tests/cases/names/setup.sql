SET NAMES utf8mb4; SET sql_mode='';
CREATE TABLE `new
line` (`a
column` INT PRIMARY KEY, `b` INT, KEY `in
dex` (`b`)); INSERT INTO `new
line` VALUES (1, 2), (3, 4);
CREATE TABLE ```` (```` INT PRIMARY KEY, `a``b` INT, KEY `k``` (`a``b`)); INSERT INTO ```` VALUES (1, 1), (2, 2);
CREATE TABLE `'"` (`'"` INT PRIMARY KEY, `x\\y` INT); INSERT INTO `'"` VALUES (1, 2);
CREATE TABLE `*/` (a INT PRIMARY KEY, `/*` INT, `--` INT, `;` INT, KEY `*/` (`/*`)); INSERT INTO `*/` VALUES (1, 2, 3, 4);
CREATE TABLE `my_VALUES` (`INSERT INTO` INT PRIMARY KEY, `VALUES` INT, `(` INT, `),(` INT); INSERT INTO `my_VALUES` VALUES (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6);
CREATE TABLE `VALUES` (`VALUES (` INT); INSERT INTO `VALUES` VALUES (1);
CREATE TABLE `t-schema` (a INT PRIMARY KEY); CREATE TABLE `../evil` (a INT PRIMARY KEY); INSERT INTO `../evil` VALUES (1);
CREATE TABLE `a.b` (`c.d` INT, KEY `e.f` (`c.d`)); INSERT INTO `a.b` VALUES (1);
CREATE TABLE `tAbLe` (`UPPER` INT, `ünï` INT); INSERT INTO `tAbLe` VALUES (1, 2);
CREATE TABLE `select` (`from` INT, `where` INT, PRIMARY KEY (`from`)); INSERT INTO `select` VALUES (1, 2);
CREATE TABLE ` lead` (` x` INT); INSERT INTO ` lead` VALUES (1);
CREATE TABLE `123` (`1e5` INT); INSERT INTO `123` VALUES (1);
CREATE TABLE `%` (`_` INT, `%` INT); INSERT INTO `%` VALUES (1, 2); CREATE TABLE `a_b` (a INT); CREATE TABLE `axb` (a INT); INSERT INTO a_b VALUES (1); INSERT INTO axb VALUES (2);
CREATE TABLE `日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日` (`日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日` INT); INSERT INTO `日本語日本語日本語日本語日本語日本語日本語日本語日本語日本語日` VALUES (7);
CREATE DATABASE `a.b`; CREATE TABLE `a.b`.c (i INT); CREATE DATABASE a; CREATE TABLE a.`b.c` (i INT); INSERT INTO `a.b`.c VALUES (1); INSERT INTO a.`b.c` VALUES (2);
CREATE DATABASE `d``b'"`; CREATE TABLE `d``b'"`.`t``'"` (i INT); INSERT INTO `d``b'"`.`t``'"` VALUES (1);
CREATE DATABASE `Größe 日`; CREATE TABLE `Größe 日`.t (i INT); INSERT INTO `Größe 日`.t VALUES (1); CREATE VIEW `Größe 日`.v AS SELECT * FROM it.`*/`;
